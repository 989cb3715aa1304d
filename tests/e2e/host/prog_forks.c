/*
 * prog_forks.c LIBRARY CHILDREN what - forks CHILDREN while another thread loads and unloads LIBRARY.  Each
 * child looks a name up ("name") or walks over the loaded objects ("walk").  Prints how many had not ended
 * three seconds after the last fork.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 500 };
static atomic_int stop, wrong;
static atomic_long loads;

static void *load(void *path)
{
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*count)(void) = library ? (int (*)(void))dlsym(library, "plugin_count") : NULL;
        wrong += count == NULL || count() != 0; /* a weak reference took us for a driver */
        if (library)
            dlclose(library);
        loads++;
    }
    return NULL;
}

static int visit(struct dl_phdr_info *info, size_t size, void *n)
{
    ++*(int *)n;
    return 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static _Noreturn void child(const char *what)
{
    int n = 0;
    if (strcmp(what, "walk") == 0)
        dl_iterate_phdr(visit, &n);
    else
        dlsym(RTLD_DEFAULT, "nothing_is_called_so");
    _exit(0);
}

int main(int argc, char **argv)
{
    static pid_t pid[MOST];
    int children = argc == 4 ? atoi(argv[2]) : 0, hung = 0;
    double longest = 0;
    pthread_t thread;
    if (children <= 0 || children > MOST || pthread_create(&thread, NULL, load, argv[1]) != 0)
        return 2;
    while (loads < 10)
        usleep(1000);
    for (int i = 0; i < children; i++) {
        double begin = now_ms();
        if ((pid[i] = fork()) == 0)
            child(argv[3]);
        double took = now_ms() - begin;
        longest = took > longest ? took : longest;
        usleep((useconds_t)(1000 + i * 577 % 3000));
    }
    stop = 1;
    pthread_join(thread, NULL);
    double end = now_ms() + 3000;
    for (int i = 0; i < children; i++) {
        pid_t ended;
        while ((ended = waitpid(pid[i], NULL, WNOHANG)) == 0 && now_ms() < end)
            usleep(2000);
        if (ended != 0)
            continue;
        hung++;
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    fprintf(stderr, "%ld loads, the longest fork %.1f ms\n", (long)loads, longest);
    printf("hung: %d, wrong: %d\n", hung, (int)wrong);
    return 0;
}
