/* The child of a fork executes the model of its parent: fork MODEL.onnx (the digits model). */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static float image[64];
static const int64_t extents[4] = {1, 1, 8, 8};

/* Executes on this thread, and on one of the library. */
static void execute(tenon_model model) {
    tenon_array input = floats(NULL, extents, 4, image);
    tenon_outputs outputs;
    tenon_run run;
    int32_t ended;
    OK(api->model_run(model, &input, 1, NULL, &outputs));
    OK(api->outputs_free(outputs));
    OK(api->model_submit(model, &input, 1, NULL, &run));
    OK(api->run_wait(run, 60, &ended));
    CHECK(ended == 1);
    OK(api->run_outputs(run, &outputs));
    OK(api->outputs_free(outputs));
    OK(api->run_free(run));
}

int main(int argc, char **argv) {
    start();
    CHECK(argc == 2);
    tenon_package package;
    tenon_model model;
    OK(api->compile_file(argv[1], NULL, &package));
    OK(api->package_load(package, NULL, &model));
    OK(api->package_free(package));
    execute(model);
    pid_t child = fork();
    CHECK(child >= 0);
    execute(model);
    OK(api->model_free(model));
    if (child == 0) {
        /* Without the leak check of a sanitizer, which would find what the lost threads held. */
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("done");
    return 0;
}
