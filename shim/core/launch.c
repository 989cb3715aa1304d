/* launch.c - this process's rank in its job. */
#include "options.h"

#include <stdbool.h>
#include <stdlib.h>

struct row {
    const char *launcher, *rank, *local_rank, *world_size;
    bool (*valid)(void); /* NULL: always */
};

static int32_t number_of(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    char *end;
    if (!text || *text < '0' || *text > '9')
        return VS_UNKNOWN_NUMBER;
    long n = strtol(text, &end, 10);
    return *end == 0 && n >= 0 && n < INT32_MAX ? (int32_t)n : VS_UNKNOWN_NUMBER;
}

/* SLURM gives batch scripts and interactive shells the task number 0, although they are not among the job's
 * tasks.  Tasks are in a step, and have its number.  (Numbers from 0xfffffff0 on are SLURM's own: batch,
 * interactive, extern.) */
static bool in_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    if (!step || !*step)
        return !getenv("SLURM_JOB_ID");
    return strtoul(step, NULL, 10) < 0xfffffff0ul;
}

/* Launchers nest: torchrun in a task of srun, mpirun whose daemons srun has started.  A process then sees the
 * variables of all of them, and the outer ones describe the inner launcher.  So the table goes from the
 * inside out, and the first row with a valid rank is used.  An outer one only fills a gap, if it gives this
 * process the same rank in a world of the same size (a script's `export RANK=$SLURM_PROCID`). */
static const struct row rows[] = {
    /* torchrun, DeepSpeed's and accelerate's launchers, everything that torch.distributed calls env:// */
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", NULL},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", NULL},
    {"MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", NULL}, /* Intel MPI too */
    {"PALS", "PALS_RANKID", "PALS_LOCAL_RANKID", NULL, NULL},
    {"PMIx", "PMIX_RANK", NULL, NULL, NULL},
    {"Flux", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", NULL},
    {"SLURM", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", in_slurm_step},
    {"SLURM", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", in_slurm_step}, /* before step's own number */
};

/* Reads the variables of ROW; without a rank, nothing. */
static struct vs_launch word_of(const struct row *row)
{
    struct vs_launch l = {number_of(row->rank), number_of(row->local_rank), number_of(row->world_size),
                          row->launcher};
    bool known = l.rank != VS_UNKNOWN_NUMBER && (!row->valid || row->valid());
    bool sense = l.world_size == VS_UNKNOWN_NUMBER || l.rank < l.world_size;
    if (!known || !sense)
        return (struct vs_launch){VS_UNKNOWN_NUMBER, VS_UNKNOWN_NUMBER, VS_UNKNOWN_NUMBER, NULL};
    if (l.local_rank > l.rank) /* local ranks are in the order of ranks */
        l.local_rank = VS_UNKNOWN_NUMBER;
    return l;
}

/* Fills the gaps of L from OUTER, if that describes the same process. */
static void fill(struct vs_launch *l, const struct vs_launch *outer)
{
    bool worlds = l->world_size != VS_UNKNOWN_NUMBER && outer->world_size != VS_UNKNOWN_NUMBER;
    if (outer->rank != l->rank || (worlds && outer->world_size != l->world_size))
        return;
    if (l->local_rank == VS_UNKNOWN_NUMBER)
        l->local_rank = outer->local_rank;
    if (l->world_size == VS_UNKNOWN_NUMBER)
        l->world_size = outer->world_size;
}

struct vs_launch vs_launch(void)
{
    struct vs_launch l = {VS_UNKNOWN_NUMBER, VS_UNKNOWN_NUMBER, VS_UNKNOWN_NUMBER, NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vs_launch word = word_of(&rows[i]);
        if (!word.launcher)
            continue;
        if (!l.launcher)
            l = word;
        else
            fill(&l, &word);
    }
    return l;
}
