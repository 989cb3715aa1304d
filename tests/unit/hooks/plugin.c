/* plugin.c - a library that looks symbols up: what it is told depends on its being the caller. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

int hooks_marker(void);
void *plugin_default(const char *name);
void *plugin_next(const char *name);

#ifdef PLUGIN_DEPENDENCY
int hooks_marker(void)
{
    return 2;
}
#else
int hooks_marker(void)
{
    return 1;
}
void *plugin_default(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    __asm__ volatile("" : "+r"(p)); /* a call, not a jump: the caller is this library */
    return p;
}
void *plugin_next(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    __asm__ volatile("" : "+r"(p)); /* a call, not a jump: the caller is this library */
    return p;
}
#endif
