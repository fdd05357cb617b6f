/* Opens the library with dlopen and looks up every name in its arguments. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *library = dlopen("libnrt.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int missing = 0;
    for (int i = 1; i < argc; i++) {
        if (dlsym(library, argv[i]) == NULL) {
            fprintf(stderr, "%s is missing\n", argv[i]);
            missing++;
        }
    }
    int (*init)(int, const char *, const char *) = (int (*)(int, const char *, const char *))dlsym(library, "nrt_init");
    void (*end)(void) = (void (*)(void))dlsym(library, "nrt_close");
    if (init(1, NULL, NULL) != 0) return 1;
    end();
    return missing != 0;
}
