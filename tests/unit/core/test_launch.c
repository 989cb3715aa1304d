/*
 * test_launch.c - which rank a process is, under every launcher and under launchers in each other; and when
 * it is none.
 */
#define _GNU_SOURCE

#include "unit/test.h"
#include "core/options.h"

#define NO VS_UNKNOWN_NUMBER

struct scene {
    const char *what, *environment; /* NAME=value, apart by blanks */
    int rank, local_rank, world_size;
    const char *launcher;
};

/* As the launchers set them (their documentation). */
#define BATCH "SLURM_JOB_ID=99 SLURM_NTASKS=8 SLURM_NNODES=2 SLURM_PROCID=0 SLURM_LOCALID=0"
#define STEP(n, l)                                                                                           \
    "SLURM_JOB_ID=99 SLURM_NTASKS=8 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=" #n                 \
    " SLURM_LOCALID=" #l

static const struct scene scenes[] = {
    {"nothing", "", NO, NO, NO, NULL},
    {"torchrun", "RANK=5 LOCAL_RANK=1 WORLD_SIZE=8 GROUP_RANK=1 LOCAL_WORLD_SIZE=4", 5, 1, 8, "torchrun"},
    {"DeepSpeed", "RANK=3 LOCAL_RANK=3 WORLD_SIZE=4 CROSS_RANK=0 CROSS_SIZE=1 LOCAL_SIZE=4", 3, 3, 4,
     "torchrun"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=2", 2,
     0, 4, "Open MPI"},
    {"MPICH, Hydra", "PMI_RANK=6 PMI_SIZE=8 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4", 6, 2, 8, "MPICH"},
    {"MVAPICH",
     "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", 1, 1, 2,
     "MVAPICH"},
    {"PMIx alone", "PMIX_RANK=3 PMIX_NAMESPACE=x", 3, NO, NO, "PMIx"},
    {"PALS", "PALS_RANKID=9 PALS_LOCAL_RANKID=1", 9, 1, NO, "PALS"},
    {"Flux", "FLUX_TASK_RANK=1 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=2", 1, 1, 2, "Flux"},
    {"srun", STEP(6, 2), 6, 2, 8, "SLURM"},
    {"srun of fewer tasks than the job's",
     "SLURM_JOB_ID=99 SLURM_NTASKS=8 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1",
     1, 1, 2, "SLURM"},
    {"srun --mpi=pmi2", STEP(6, 2) " PMI_RANK=6 PMI_SIZE=8", 6, 2, 8, "MPICH"},
    {"srun --mpi=pmix", STEP(6, 2) " PMIX_RANK=6", 6, 2, 8, "PMIx"},
    {"a batch script itself", BATCH, NO, NO, NO, NULL},
    {"a shell of salloc", "SLURM_JOB_ID=99 SLURM_NTASKS=8 SLURM_JOB_NUM_NODES=2", NO, NO, NO, NULL},
    {"an interactive step",
     "SLURM_JOB_ID=99 SLURM_NTASKS=8 SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_LOCALID=0", NO, NO, NO,
     NULL},
    {"torchrun in a batch script", BATCH " RANK=1 LOCAL_RANK=1 WORLD_SIZE=2", 1, 1, 2, "torchrun"},
    {"torchrun in a task of srun", STEP(1, 0) " RANK=7 LOCAL_RANK=3 WORLD_SIZE=8", 7, 3, 8, "torchrun"},
    {"mpirun, its daemons by srun",
     STEP(1, 0) " OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=8 PMIX_RANK=5", 5,
     1, 8, "Open MPI"},
    {"Hydra, its proxies by srun", STEP(1, 0) " PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1", 5, 1, 8, "MPICH"},
    {"a script that exports RANK alone", STEP(6, 2) " RANK=6", 6, 2, 8, "torchrun"},
    {"... in a world of its own", STEP(6, 2) " RANK=6 WORLD_SIZE=16", 6, NO, 16, "torchrun"},
    {"... which is another's rank", STEP(6, 2) " RANK=0", 0, NO, NO, "torchrun"},
    {"RANK that is no number", "RANK=gold WORLD_SIZE=2 " STEP(6, 2), 6, 2, 8, "SLURM"},
    {"RANK that is empty", "RANK= LOCAL_RANK= WORLD_SIZE= PMI_RANK=1 PMI_SIZE=2", 1, NO, 2, "MPICH"},
    {"RANK that is negative", "RANK=-1 WORLD_SIZE=2", NO, NO, NO, NULL},
    {"RANK beyond any number", "RANK=99999999999999999999 WORLD_SIZE=2", NO, NO, NO, NULL},
    {"RANK beyond its world", "RANK=4 WORLD_SIZE=4 PMI_RANK=1 PMI_SIZE=2", 1, NO, 2, "MPICH"},
    {"a local rank beyond the rank", "RANK=1 LOCAL_RANK=2 WORLD_SIZE=4", 1, NO, 4, "torchrun"},
    {"a world without a rank", "WORLD_SIZE=4 LOCAL_RANK=0", NO, NO, NO, NULL},
};

static void set_environment(const char *text)
{
    char copy[512], *save = NULL;
    clearenv();
    strcpy(copy, text);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        *value++ = 0;
        setenv(word, value, 1);
    }
}

TEST(every_launcher_is_believed_of_its_own_processes_alone)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const struct scene *s = &scenes[i];
        set_environment(s->environment);
        struct vs_launch l = vs_launch();
        bool same =
            l.launcher == s->launcher || (l.launcher && s->launcher && !strcmp(l.launcher, s->launcher));
        if (l.rank != s->rank || l.local_rank != s->local_rank || l.world_size != s->world_size || !same)
            fail_msg("%s: rank %d, local rank %d, world of %d (%s)", s->what, l.rank, l.local_rank,
                     l.world_size, l.launcher ? l.launcher : "no launcher");
    }
}
