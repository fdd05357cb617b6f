/* Calls the functions in its arguments with all arguments zero, before nrt_init, after it, and after
 * nrt_close; prints `NAME STATUS STATUS STATUS`. A `-` before a name: it does not return a status.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <stdint.h>

/* No function of the interface has more arguments; the calling convention ignores surplus ones. */
typedef intptr_t (*any_function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t,
                                 intptr_t, intptr_t, intptr_t);

enum { STATES = 3, MOST = 200 };

static NRT_STATUS statuses[MOST][STATES];

static void call_all(int state, int count, char **names) {
    for (int i = 0; i < count; i++) {
        const char *name = names[i] + (names[i][0] == '-');
        any_function function;
        *(void **)&function = dlsym(RTLD_DEFAULT, name);
        CHECK(function != NULL);
        statuses[i][state] = (NRT_STATUS)function(0, 0, 0, 0, 0, 0, 0, 0, 0);
    }
}

int main(int argc, char **argv) {
    int count = argc - 1;
    char **names = argv + 1;
    CHECK(count > 0 && count <= MOST);
    call_all(0, count, names);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    call_all(1, count, names);
    nrt_close();
    call_all(2, count, names);
    for (int i = 0; i < count; i++) {
        printf("%s", names[i]);
        for (int state = 0; state < STATES && names[i][0] != '-'; state++) {
            printf(" %s", nrt_get_status_as_str(statuses[i][state]));
        }
        printf("\n");
    }
    return 0;
}
