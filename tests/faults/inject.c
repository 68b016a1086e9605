/* Has calls of the C library fail in the daemon that it is loaded into, when the file named by FAULTS_CALLS says so: the n-th
 * call of a kind from the moment on at which it is armed, and as many after it as are to fail. Hooks do not have it: their environment
 * is made anew. What the child of a clone and the keeper do without the C library cannot fail by this. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kinds of calls, by their index in calls.rs. */
enum kind { NONE, OPEN, DUP, PIPE, ACCEPT, EPOLL, MKDIR, STAT, LINK, WRITE, SYNC, ALLOCATE, RENAME, LOCK, UNLINK, COPY, RULESET, FILTER,
            THREAD, MAP, OWNER };

struct control {
    _Atomic int kind;    /* which calls fail */
    _Atomic int error;   /* with which errno */
    _Atomic int first;   /* from which on, counted from 1 */
    _Atomic int count;   /* how many */
    _Atomic int seen;    /* how many there were */
    _Atomic int failed;  /* how many failed */
};

static struct control *control;

static int fails(enum kind kind) {
    if (!control || atomic_load(&control->kind) != (int)kind)
        return 0;
    int number = atomic_fetch_add(&control->seen, 1) + 1;
    int first = atomic_load(&control->first);
    if (number < first || number - first >= atomic_load(&control->count))
        return 0;
    atomic_fetch_add(&control->failed, 1);
    errno = atomic_load(&control->error);
    return 1;
}

/* The real functions are looked up once, before there is a thread. */
#define REAL(result, name, ...) static result (*real_##name)(__VA_ARGS__);
#define ALL(X) \
    X(int, open, const char *, int, ...) \
    X(int, open64, const char *, int, ...) \
    X(int, openat, int, const char *, int, ...) \
    X(DIR *, opendir, const char *) \
    X(int, fcntl, int, int, ...) \
    X(int, pipe2, int *, int) \
    X(int, accept4, int, struct sockaddr *, socklen_t *, int) \
    X(int, epoll_ctl, int, int, int, struct epoll_event *) \
    X(int, mkdir, const char *, mode_t) \
    X(int, stat, const char *, struct stat *) \
    X(int, stat64, const char *, void *) \
    X(int, lstat64, const char *, void *) \
    X(int, fstat, int, struct stat *) \
    X(int, fstat64, int, void *) \
    X(int, fstatat, int, const char *, struct stat *, int) \
    X(int, statx, int, const char *, int, unsigned, void *) \
    X(ssize_t, readlink, const char *, char *, size_t) \
    X(char *, realpath, const char *, char *) \
    X(int, symlink, const char *, const char *) \
    X(ssize_t, write, int, const void *, size_t) \
    X(ssize_t, pwrite64, int, const void *, size_t, long) \
    X(ssize_t, writev, int, const struct iovec *, int) \
    X(int, fsync, int) \
    X(int, fdatasync, int) \
    X(int, fallocate, int, int, long, long) \
    X(int, rename, const char *, const char *) \
    X(int, renameat, int, const char *, int, const char *) \
    X(int, flock, int, int) \
    X(int, unlink, const char *) \
    X(int, unlinkat, int, const char *, int) \
    X(int, rmdir, const char *) \
    X(ssize_t, copy_file_range, int, void *, int, void *, size_t, unsigned) \
    X(ssize_t, sendfile64, int, int, long *, size_t) \
    X(long, syscall, long, ...) \
    X(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) \
    X(void *, mmap, void *, size_t, int, int, int, long) \
    X(void *, mmap64, void *, size_t, int, int, int, long) \
    X(int, chown, const char *, uid_t, gid_t) \
    X(int, chmod, const char *, mode_t) \
    X(int, fchmod, int, mode_t)
ALL(REAL)

__attribute__((constructor)) static void begin(void) {
#define LOOK_UP(result, name, ...) real_##name = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name);
    ALL(LOOK_UP)
    const char *path = getenv("FAULTS_CALLS");
    int fd = path ? real_open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = real_mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = mode_of(flags, rest); \
        va_end(rest); \
        return fails(OPEN) ? -1 : real_##name(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

int openat(int at, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails(OPEN) ? -1 : real_openat(at, path, flags, mode);
}

DIR *opendir(const char *path) { return fails(OPEN) ? NULL : real_opendir(path); }

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && fails(DUP))
        return -1;
    return real_fcntl(fd, command, argument);
}

int pipe2(int ends[2], int flags) { return fails(PIPE) ? -1 : real_pipe2(ends, flags); }

int accept4(int fd, struct sockaddr *from, socklen_t *length, int flags) {
    /* That nobody is there is no call that could fail for want of anything. */
    int accepted = real_accept4(fd, from, length, flags);
    if (accepted >= 0 && fails(ACCEPT)) {
        int error = errno;
        close(accepted);
        errno = error;
        return -1;
    }
    return accepted;
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    return operation == EPOLL_CTL_ADD && fails(EPOLL) ? -1 : real_epoll_ctl(epoll, operation, fd, event);
}

int mkdir(const char *path, mode_t mode) { return fails(MKDIR) ? -1 : real_mkdir(path, mode); }
int symlink(const char *target, const char *path) { return fails(MKDIR) ? -1 : real_symlink(target, path); }

int stat(const char *path, struct stat *found) { return fails(STAT) ? -1 : real_stat(path, found); }
int stat64(const char *path, struct stat64 *found) { return fails(STAT) ? -1 : real_stat64(path, found); }
int lstat64(const char *path, struct stat64 *found) { return fails(STAT) ? -1 : real_lstat64(path, found); }
int fstat(int fd, struct stat *found) { return fails(STAT) ? -1 : real_fstat(fd, found); }
int fstat64(int fd, struct stat64 *found) { return fails(STAT) ? -1 : real_fstat64(fd, found); }
int fstatat(int at, const char *path, struct stat *found, int flags) {
    return fails(STAT) ? -1 : real_fstatat(at, path, found, flags);
}
int statx(int at, const char *path, int flags, unsigned mask, struct statx *found) {
    return fails(STAT) ? -1 : real_statx(at, path, flags, mask, found);
}

ssize_t readlink(const char *path, char *target, size_t size) { return fails(LINK) ? -1 : real_readlink(path, target, size); }
char *realpath(const char *path, char *found) { return fails(LINK) ? NULL : real_realpath(path, found); }

/* Of a file on a disk: sockets and pipes have no room to lack. */
static int is_file(int fd) {
    struct stat found;
    return control && atomic_load(&control->kind) == WRITE && real_fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    return is_file(fd) && fails(WRITE) ? -1 : real_write(fd, bytes, count);
}
ssize_t pwrite64(int fd, const void *bytes, size_t count, long offset) {
    return is_file(fd) && fails(WRITE) ? -1 : real_pwrite64(fd, bytes, count, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return is_file(fd) && fails(WRITE) ? -1 : real_writev(fd, parts, count);
}

int fsync(int fd) { return fails(SYNC) ? -1 : real_fsync(fd); }
int fdatasync(int fd) { return fails(SYNC) ? -1 : real_fdatasync(fd); }
int fallocate(int fd, int mode, long offset, long length) {
    return fails(ALLOCATE) ? -1 : real_fallocate(fd, mode, offset, length);
}
int rename(const char *from, const char *to) { return fails(RENAME) ? -1 : real_rename(from, to); }
int renameat(int at, const char *from, int to_at, const char *to) {
    return fails(RENAME) ? -1 : real_renameat(at, from, to_at, to);
}
int flock(int fd, int operation) { return operation != LOCK_UN && fails(LOCK) ? -1 : real_flock(fd, operation); }
int unlink(const char *path) { return fails(UNLINK) ? -1 : real_unlink(path); }
int unlinkat(int at, const char *path, int flags) { return fails(UNLINK) ? -1 : real_unlinkat(at, path, flags); }
int rmdir(const char *path) { return fails(UNLINK) ? -1 : real_rmdir(path); }

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
    return fails(COPY) ? -1 : real_copy_file_range(from, from_at, to, to_at, length, flags);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t count) {
    return fails(COPY) ? -1 : real_sendfile64(to, from, at, count);
}

long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a[6];
    for (int index = 0; index < 6; index++)
        a[index] = va_arg(rest, long);
    va_end(rest);
    switch (number) {
    case SYS_openat2:
        if (fails(OPEN))
            return -1;
        break;
    case SYS_copy_file_range:
        if (fails(COPY))
            return -1;
        break;
    case SYS_landlock_create_ruleset:
        /* A question for the version, without attributes, takes nothing. */
        if (a[0] && fails(RULESET))
            return -1;
        break;
    case SYS_landlock_add_rule:
        if (fails(RULESET))
            return -1;
        break;
    case SYS_seccomp:
        if (fails(FILTER))
            return -1;
        break;
    }
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    return fails(THREAD) ? errno : real_pthread_create(thread, how, run, argument);
}

void *mmap(void *at, size_t length, int access, int flags, int fd, long offset) {
    return fails(MAP) ? MAP_FAILED : real_mmap(at, length, access, flags, fd, offset);
}
void *mmap64(void *at, size_t length, int access, int flags, int fd, long offset) {
    return fails(MAP) ? MAP_FAILED : real_mmap64(at, length, access, flags, fd, offset);
}

int chown(const char *path, uid_t owner, gid_t group) { return fails(OWNER) ? -1 : real_chown(path, owner, group); }
int chmod(const char *path, mode_t mode) { return fails(OWNER) ? -1 : real_chmod(path, mode); }
int fchmod(int fd, mode_t mode) { return fails(OWNER) ? -1 : real_fchmod(fd, mode); }
