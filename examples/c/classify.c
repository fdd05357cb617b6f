/*
 * Compiles an ONNX model, or loads a package, executes it on a file of floats and prints the class with the highest
 * score.
 *
 *     cc classify.c -o classify $(pkg-config --cflags --libs tenon)
 *     ./classify digits.onnx seven.f32
 *
 * The file has the bytes of the model's only input, which has a fixed size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenon/tenon.h>

static const tenon_functions *tenon;

/* Prints the failure of a call, all problems with what to do, and ends the program. */
static void check(tenon_status status) {
    if (status != NULL) {
        fprintf(stderr, "classify: %s\n", tenon->status_text(status));
        tenon->status_free(status);
        exit(1);
    }
}

static tenon_model load(const char *path) {
    tenon_model model;
    const char *end = strrchr(path, '.');
    if (end == NULL || strcmp(end, ".onnx") != 0) {
        check(tenon->model_load_file(path, NULL, &model));
        return model;
    }
    tenon_package package;
    check(tenon->compile_file(path, NULL, &package));
    check(tenon->package_load(package, NULL, &model));
    tenon->package_free(package);
    return model;
}

static void read_file(const char *path, void *bytes, size_t size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fread(bytes, 1, size, file) != size) {
        fprintf(stderr, "classify: %s: cannot read %zu bytes\n", path, size);
        exit(1);
    }
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: classify MODEL INPUT\n");
        return 2;
    }
    tenon = tenon_api(TENON_API_MAJOR, TENON_API_MINOR);
    if (tenon == NULL) {
        fprintf(stderr, "classify: the installed libtenon is older than tenon.h\n");
        return 1;
    }
    tenon_model model = load(argv[1]);

    /* Executions read and write the memory of the bindings in place. */
    tenon_bindings bindings;
    tenon_array input, scores;
    check(tenon->model_bind(model, NULL, 0, &bindings));
    check(tenon->bindings_input(bindings, 0, &input));
    check(tenon->bindings_output(bindings, 0, &scores));
    read_file(argv[2], input.data, input.bytes);
    check(tenon->bindings_run(bindings, NULL));

    if (scores.type != TENON_F32 || scores.bytes == 0) {
        fprintf(stderr, "classify: the first output has no scores of type f32\n");
        return 1;
    }
    const float *score = scores.data;
    size_t best = 0;
    for (size_t at = 1; at < scores.bytes / sizeof *score; ++at) {
        if (score[at] > score[best]) {
            best = at;
        }
    }
    printf("class %zu, score %g\n", best, score[best]);

    tenon->bindings_free(bindings);
    tenon->model_free(model);
    return 0;
}
