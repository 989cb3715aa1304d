/*
 * replay.c - runs a fuzz target over kept inputs: every file of the directories and every file named; without
 * libFuzzer, so that each build of the tests does it, the sanitizers' among them.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int runs;

static void one(const char *path)
{
    FILE *f = fopen(path, "rb");
    static uint8_t data[1 << 20];
    if (!f)
        exit(2);
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* a byte too far is seen */
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    runs++;
}

static void all(const char *path)
{
    struct stat st;
    char file[4096];
    DIR *d = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (!d) {
        one(path);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            one(file);
    }
    closedir(d);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        all(argv[i]);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    fprintf(stderr, "%d inputs\n", runs);
    return runs == 0;
}
