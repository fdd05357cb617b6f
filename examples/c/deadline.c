/*
 * Compiles an ONNX model with progress, a deadline, and cancellation by Ctrl-C, and writes the package.
 *
 *     cc deadline.c -o deadline $(pkg-config --cflags --libs tenon)
 *     ./deadline resnet50.onnx resnet50.neff 10
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <tenon/tenon.h>

static volatile sig_atomic_t interrupted;
static tenon_task task;

static void interrupt(int signal) {
    (void)signal;
    interrupted = 1;
}

/* Called at each step, perhaps on several threads. */
static void progress(void *context, const char *step, uint64_t done, uint64_t total) {
    const tenon_functions *tenon = context;
    if (interrupted) {
        tenon->status_free(tenon->task_cancel(task));
    }
    if (total > 0 && done == total) {
        fprintf(stderr, "%s: %llu\n", step, (unsigned long long)total);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: deadline MODEL.onnx PACKAGE SECONDS\n");
        return 2;
    }
    const tenon_functions *tenon = tenon_api(TENON_API_MAJOR, TENON_API_MINOR);
    if (tenon == NULL) {
        fprintf(stderr, "deadline: the installed libtenon is older than tenon.h\n");
        return 1;
    }
    signal(SIGINT, interrupt);
    tenon_task_options limits = TENON_INIT(tenon_task_options);
    limits.timeout_seconds = atof(argv[3]);
    limits.progress = progress;
    limits.context = (void *)tenon;
    tenon_package package = NULL;
    tenon_status status = tenon->task_create(&limits, &task);
    if (status == NULL) {
        tenon_compile_options options = TENON_INIT(tenon_compile_options);
        options.task = task;
        status = tenon->compile_file(argv[1], &options, &package);
    }
    if (status == NULL) {
        status = tenon->package_write(package, argv[2], task);
    }
    int code = 0;
    if (status != NULL) {
        fprintf(stderr, "deadline: %s\n", tenon->status_text(status));
        code = tenon->status_code(status) == TENON_DEADLINE_EXCEEDED ? 3 : 1;
        tenon->status_free(status);
    }
    tenon->package_free(package);
    tenon->task_free(task);
    return code;
}
