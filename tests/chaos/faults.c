/* Faults at a chosen write to the disk, for a program that is started with this library in LD_PRELOAD.
 *
 * Counts the calls that change files below a folder: open for writing, write, fsync, rename, unlink, truncate. The call
 * with a chosen number fails, or the process is killed before or after it. Everything else passes through.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { NOTHING, FAIL, FAIL_FROM_HERE, KILL_BEFORE, KILL_AFTER };

static char folder[PATH_MAX];
static long calls, chosen;
static int action, error_number;

/* Count from zero, and let the call with this number (the first is 1) have this fault. */
void chaos_arm(const char *below, long number, int what, int error) {
    snprintf(folder, sizeof folder, "%s/", below);
    calls = 0;
    chosen = number;
    action = what;
    error_number = error;
}

long chaos_calls(void) { return calls; }

static int is_below(const char *path) { return folder[0] && strncmp(path, folder, strlen(folder)) == 0; }

static int is_file_below(int file) {
    char link[64], path[PATH_MAX];
    if (!folder[0])
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return is_below(path);
}

/* Count a call; return 1 if it must fail. */
static int before(int counted) {
    if (!counted)
        return 0;
    calls++;
    if (calls == chosen && action == KILL_BEFORE)
        kill(getpid(), SIGKILL);
    if ((calls == chosen && action == FAIL) || (calls >= chosen && action == FAIL_FROM_HERE)) {
        errno = error_number;
        return 1;
    }
    return 0;
}

static void after(int counted) {
    if (counted && calls == chosen && action == KILL_AFTER)
        kill(getpid(), SIGKILL);
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
#define FAULTY(type, name, parameters, arguments, counted)                                                             \
    type name parameters {                                                                                             \
        static typeof(&name) real;                                                                                     \
        if (!real)                                                                                                     \
            real = REAL(name);                                                                                         \
        int counts = (counted);                                                                                        \
        if (before(counts))                                                                                            \
            return -1;                                                                                                 \
        type result = real arguments;                                                                                  \
        after(counts);                                                                                                 \
        return result;                                                                                                 \
    }

FAULTY(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), is_file_below(file))
FAULTY(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), is_file_below(file))
FAULTY(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at),
       is_file_below(file))
FAULTY(int, fsync, (int file), (file), is_file_below(file))
FAULTY(int, fdatasync, (int file), (file), is_file_below(file))
FAULTY(int, ftruncate, (int file, off_t size), (file, size), is_file_below(file))
FAULTY(int, ftruncate64, (int file, off64_t size), (file, size), is_file_below(file))
FAULTY(int, rename, (const char *from, const char *to), (from, to), is_below(to))
FAULTY(int, unlink, (const char *path), (path), is_below(path))
FAULTY(int, mkdir, (const char *path, mode_t mode), (path, mode), is_below(path))

#define FAULTY_OPEN(name)                                                                                              \
    int name(const char *path, int flags, ...) {                                                                       \
        static int (*real)(const char *, int, ...);                                                                    \
        if (!real)                                                                                                     \
            real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = flags & O_CREAT ? (mode_t)va_arg(more, int) : 0;                                                 \
        va_end(more);                                                                                                  \
        int counts = (flags & (O_CREAT | O_TRUNC)) && is_below(path);                                                  \
        if (before(counts))                                                                                            \
            return -1;                                                                                                 \
        int file = real(path, flags, mode);                                                                            \
        after(counts);                                                                                                 \
        return file;                                                                                                   \
    }

FAULTY_OPEN(open)
FAULTY_OPEN(open64)
