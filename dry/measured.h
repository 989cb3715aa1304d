/*
 * measured.h - whether this run stands on what figures were read off: an H200, with the libraries that the
 * loaded PyTorch was made for.  The metadata beside its package say which; where they do not, nothing counts
 * as measured.
 */
#ifndef DRY_MEASURED_H
#define DRY_MEASURED_H

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
    const char *package; /* as its line begins: "nvidia-cudnn-cu" */
    int cuda;            /* what follows at once, CUDA's major; 0: none does */
    int version;         /* 91900 for 9.19.0; 0: no line names one */
};

/* "Requires-Dist: nvidia-cudnn-cu13==9.19.0.56; ...", "... (==9.1.0.70) ; ...", "...
 * cuda-toolkit[cublas,...]==13.0.2; ..." */
static inline bool wanted_in_line(struct wanted *w, const char *line)
{
    static const char begin[] = "Requires-Dist: ";
    size_t length = strlen(w->package);
    int major, minor, patch;
    if (strncmp(line, begin, sizeof begin - 1) || strncmp(line += sizeof begin - 1, w->package, length))
        return false;
    const char *is = strstr(line, "==");
    if (!is || sscanf(is, "==%d.%d.%d", &major, &minor, &patch) != 3)
        return false;
    w->cuda = (int)strtol(line + length, NULL, 10);
    w->version = major * 10000 + minor * 100 + patch;
    return true;
}

static inline void wanted_in_file(struct wanted *w, const char *metadata)
{
    FILE *file = fopen(metadata, "re");
    char line[512];
    while (file && fgets(line, sizeof line, file) && !wanted_in_line(w, line))
        ;
    if (file)
        fclose(file);
}

/* PACKAGES is the folder that torch/ lies in; its metadata in one beside it, torch-VERSION.dist-info. */
static inline void wanted_beside(struct wanted *w, const char *packages)
{
    DIR *folder = opendir(packages);
    for (struct dirent *entry; folder && !w->version && (entry = readdir(folder));) {
        const char *end = strstr(entry->d_name, ".dist-info");
        char path[PATH_MAX];
        if (strncmp(entry->d_name, "torch-", 6) || !end ||
            snprintf(path, sizeof path, "%s/%s/METADATA", packages, entry->d_name) >= (int)sizeof path)
            continue;
        wanted_in_file(w, path);
    }
    if (folder)
        closedir(folder);
}

static inline int wanted_by(struct dl_phdr_info *object, size_t size, void *wanted)
{
    (void)size;
    struct wanted *w = wanted;
    char path[PATH_MAX], *name = strrchr(object->dlpi_name, '/');
    if (!name || (strcmp(name, "/libtorch_cuda.so") && strcmp(name, "/libtorch_cpu.so")) ||
        !realpath(object->dlpi_name, path))
        return 0;
    for (int up = 0; up < 3; up++) { /* .../torch/lib/libtorch_cuda.so */
        char *slash = strrchr(path, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
    wanted_beside(w, path);
    return w->version;
}

/* What of PACKAGE the loaded PyTorch requires. */
static inline struct wanted dry_wanted(const char *package)
{
    struct wanted w = {.package = package};
    dl_iterate_phdr(wanted_by, &w);
    return w;
}

/* The card by its whole name: there are others in whose names it is contained. */
static inline bool dry_on_h200(void)
{
    int (*current)(int *) = (int (*)(int *))dlsym(RTLD_DEFAULT, "cuCtxGetDevice");
    int (*ask)(char *, int, int) = (int (*)(char *, int, int))dlsym(RTLD_DEFAULT, "cuDeviceGetName");
    char name[96];
    int device;
    return current && ask && !current(&device) && !ask(name, sizeof name, device) &&
           !strcmp(name, "NVIDIA H200");
}

#endif
