/*
 * ranks.h - compares the files of a distributed job: which belong together, which ranks are missing, which
 * peaked highest, how much they differ.
 *
 * Files are of one job where their world sizes are equal, they ran at the same time, and no rank comes
 * twice, except as processes that share a device.  Files without a rank are a group of their own.
 */
#ifndef VS_ANALYSIS_RANKS_H
#define VS_ANALYSIS_RANKS_H

#include "base/base.h"

struct rank_phase {
    char *name;
    int64_t allocated, reserved, ns;
};

struct rank_device {
    int64_t device, allocated, reserved, residual, step_at_peak;
    bool whole_device; /* other processes are in the residual */
    char *uuid, *phase_at_peak;
    char *line; /* the program's line that holds most of the peak; NULL: unknown, or not looked up */
    struct rank_phase *phases;
    size_t phase_count;
};

struct rank_file { /* texts are owned; NULL: unknown */
    char *label, *path, *host, *command, *state;
    char *dry;    /* of a dry run, the words for it (trace_mark_line) */
    char *labels; /* that the user gave the run, "batch=4, seq=1024" */
    int64_t rank, world_size, pid, steps;
    int64_t from_ns, to_ns; /* wall clock; UNKNOWN where the file doesn't say */
    bool whole;             /* the file is known to have its whole run */
    struct rank_device *devices;
    size_t device_count;
};

struct rank_job {
    const struct rank_file **files; /* by rank */
    size_t file_count;
    int64_t world_size; /* UNKNOWN */
    bool ranked;
    /* In order of their addresses: what a file took, such as a stray context, on a GPU on which another file
     * of the job holds more, while it holds more on a GPU of its own.  Figures over devices leave these out.
     */
    const struct rank_device **aside;
    size_t aside_count;
};

/* The jobs among FILES, the first to start first, files without a rank last; for ranks_free_jobs. */
struct rank_job *ranks_jobs(const struct rank_file *files, size_t n, size_t *count);
void ranks_free_jobs(struct rank_job *jobs, size_t n);
void ranks_free_file(struct rank_file *f);

/* The ranks below the world size that have no file; the caller frees them. */
int64_t *ranks_missing(const struct rank_job *job, size_t *n);
/* Whether every rank is there and has its whole run. */
bool ranks_whole(const struct rank_job *job);

/* A figure over all devices of a job that have it, but for those that lie aside. */
enum rank_figure { FIGURE_ALLOCATED, FIGURE_RESERVED, FIGURE_RESIDUAL };
struct rank_span {
    size_t n;
    int64_t least, mean, most; /* UNKNOWN where n is 0 */
    const struct rank_file *file;
    const struct rank_device *device; /* the one with the most; the first of equals */
    const struct rank_file *least_file;
    const struct rank_device *least_device; /* the one with the least; the first of equals */
};
struct rank_span ranks_span(const struct rank_job *job, enum rank_figure figure);
/* Likewise within the phase NAME. */
enum rank_phase_figure { PHASE_ALLOCATED, PHASE_RESERVED, PHASE_TIME };
struct rank_span ranks_phase_span(const struct rank_job *job, const char *name,
                                  enum rank_phase_figure figure);

/* The names of all phases, in the order of their first appearance; the texts belong to the job. */
const char **ranks_phases(const struct rank_job *job, size_t *n);

/* A GPU that several files of a job used at the same time: whose it is, and what the others have there. */
struct rank_gpu {
    const struct rank_file *owner;    /* who reserved most on it; the first of equals */
    const struct rank_device *device; /* the owner's */
    const struct rank_file **others;
    const struct rank_device **other_devices; /* theirs, of each the one that is this GPU */
    size_t other_count;
    int64_t own,
        foreign; /* bytes of the driver that the owner, and the others together, had at most: reserved
                    and what is beyond; without the latter where the driver said it of all processes */
    int64_t foreign_allocated; /* of them what the others' programs used */
    bool at_least;             /* of one of the others only reserved is known */
};
/* Such GPUs of JOB, the one with the most foreign bytes first; for ranks_free_gpus.  By host and UUID. */
struct rank_gpu *ranks_shared_gpus(const struct rank_job *job, size_t *n);
void ranks_free_gpus(struct rank_gpu *gpus, size_t n);

/* The number of hosts; and whether different devices of one host have the same number, as happens if
 * CUDA_VISIBLE_DEVICES gives each process one device. */
size_t ranks_hosts(const struct rank_job *job);
bool ranks_need_uuid(const struct rank_job *job);

#endif
