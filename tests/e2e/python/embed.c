/*
 * embed.c LIBRARY... [end|late] - embeds interpreters as a plug-in does, where no other object sees their
 * symbols, and runs a program that allocates in the first.
 *
 * end: ends it and allocates again.  late: allocates before there is one, and runs the program once the
 * recorder says that it sees the interpreter's frames.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const program = "def embedded():\n"
                                   "    return allocate()\n"
                                   "assert embedded() == 0\n";

static int (*alloc)(uint64_t *, size_t);
static void *(*long_from)(long);

static int allocate(size_t bytes)
{
    uint64_t address;
    return alloc(&address, bytes);
}

static void *allocate_for_python(void *self, void *args)
{
    (void)self, (void)args;
    return long_from(allocate(4096));
}

static int open_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
    alloc = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    return init(0) || retain(&context, 0) || set(context);
}

/* Makes allocate() a function of __main__.  The structure is PyMethodDef; 4: METH_NOARGS. */
static int give_function(void *python)
{
    static struct {
        const char *name;
        void *(*function)(void *, void *);
        int flags;
        const char *doc;
    } method = {"allocate", allocate_for_python, 4, NULL};
    void *(*make)(void *, void *, void *) =
        (void *(*)(void *, void *, void *))dlsym(python, "PyCFunction_NewEx");
    void *(*module)(const char *) = (void *(*)(const char *))dlsym(python, "PyImport_AddModule");
    int (*set)(void *, const char *, void *) =
        (int (*)(void *, const char *, void *))dlsym(python, "PyObject_SetAttrString");
    long_from = (void *(*)(long))dlsym(python, "PyLong_FromLong");
    return set(module("__main__"), "allocate", make(&method, NULL, NULL));
}

/* Until stderr, which is a file, has the word of the recorder's: half a minute at most. */
static void wait_for_word(const char *word)
{
    static char text[65536];
    for (int i = 0; i < 3000; i++) {
        FILE *f = fopen("/proc/self/fd/2", "r");
        size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        text[n] = '\0';
        if (f)
            fclose(f);
        if (strstr(text, word))
            return;
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    void *python = NULL;
    bool late = strcmp(argv[argc - 1], "late") == 0;
    if (late && (open_driver() || allocate(2048)))
        return 1;
    for (int i = 1; i < argc && argv[i][0] == '/'; i++) {
        void *handle = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            printf("%s\n", dlerror());
            return 1;
        }
        python = python ? python : handle;
    }
    void (*begin)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
    int (*run)(const char *, void *) =
        (int (*)(const char *, void *))dlsym(python, "PyRun_SimpleStringFlags");
    int (*end)(void) = (int (*)(void))dlsym(python, "Py_FinalizeEx");
    begin(0);
    if (late)
        wait_for_word("Python frames of CPython");
    int status = open_driver() || give_function(python) || run(program, NULL);
    if (strcmp(argv[argc - 1], "end") == 0) {
        status |= end();
        status |= allocate(8192);
    }
    return status;
}
