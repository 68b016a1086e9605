/*
 * Makes one attempt, named by the first argument, and exits with its errno, or 0 where it worked.
 *
 * What it gained goes to stdout, so that a test can look at the effect instead of believing the exit code.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/sem.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_FASTOPEN
#define MSG_FASTOPEN 0x20000000
#endif

extern char **environ;

/* For calls that answer -1 and errno. */
#define TRY(call) do { if ((long)(call) < 0) return errno; } while (0)

struct name { const char *name; int (*attempt)(char **args); };

static void say(const char *text) { if (write(1, text, strlen(text)) < 0) _exit(125); }

/* Files. */

static int show(int fd)
{
	char text[4096];
	ssize_t n;
	TRY(n = read(fd, text, sizeof text));
	if (write(1, text, (size_t)n) < 0) return errno;
	return 0;
}
static int read_file(char **a) { int fd; TRY(fd = open(a[0], O_RDONLY)); return show(fd); }
static int read_openat2(char **a)
{
	uint64_t how[3] = { O_RDONLY, 0, 0 };
	int fd;
	TRY(fd = (int)syscall(437, AT_FDCWD, a[0], how, sizeof how));
	return show(fd);
}
static int read_through_link(char **a)
{
	TRY(symlink(a[0], "link"));
	char *link[] = { "link" };
	return read_file(link);
}
static int read_from_inside(char **a)
{
	TRY(chdir(a[0]));
	return read_file(a + 1);
}
static int read_reopened(char **a)
{
	char path[64];
	int fd;
	TRY(fd = open(a[0], O_PATH));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	TRY(fd = open(path, O_RDONLY));
	return show(fd);
}
static int write_file(char **a)
{
	int fd;
	TRY(fd = open(a[0], O_WRONLY | O_CREAT, 0644));
	TRY(write(fd, "written", 7));
	return 0;
}
#ifdef SYS_open
static int open_for_neither(char **a) { TRY(syscall(SYS_open, a[0], O_ACCMODE | O_NONBLOCK)); say("opened"); return 0; }
#else
static int open_for_neither(char **a) { TRY(syscall(SYS_openat, AT_FDCWD, a[0], O_ACCMODE | O_NONBLOCK)); say("opened"); return 0; }
#endif
static int open_for_neither_at(char **a) { TRY(openat(AT_FDCWD, a[0], O_ACCMODE | O_NONBLOCK)); say("opened"); return 0; }
static int open_for_neither_by_openat2(char **a)
{
	uint64_t how[3] = { O_ACCMODE, 0, 0 };
	TRY(syscall(437, AT_FDCWD, a[0], how, sizeof how));
	say("opened");
	return 0;
}
static int unnamed_file(char **a) { TRY(open(a[0], O_TMPFILE | O_ACCMODE, 0600)); say("made"); return 0; }
static int truncate_path(char **a) { TRY(truncate(a[0], 0)); return 0; }
static int truncate_by_reading(char **a) { TRY(open(a[0], O_RDONLY | O_TRUNC)); return 0; }
static int truncate_by_openat2(char **a)
{
	uint64_t how[3] = { O_RDONLY | O_TRUNC, 0, 0 };
	TRY(syscall(437, AT_FDCWD, a[0], how, sizeof how));
	return 0;
}
static int truncate_by_creat(char **a) { TRY(creat(a[0], 0644)); return 0; }
static int list(char **a)
{
	DIR *dir = opendir(a[0]);
	struct dirent *entry;
	if (!dir) return errno;
	while ((entry = readdir(dir))) { say(entry->d_name); say("\n"); }
	return 0;
}
static int make_directory(char **a) { TRY(mkdir(a[0], 0755)); return 0; }
static int remove_directory(char **a) { TRY(rmdir(a[0])); return 0; }
static int symbolic_link(char **a) { TRY(symlink("/nowhere", a[0])); return 0; }
static int remove_file(char **a) { TRY(unlink(a[0])); return 0; }
static int hard_link(char **a) { TRY(link(a[0], a[1])); return 0; }
static int rename_file(char **a) { TRY(rename(a[0], a[1])); return 0; }
static int move_out(char **a)
{
	char *own[] = { "own" };
	int error = write_file(own);
	if (error) return error;
	return rename("own", a[0]) < 0 ? errno : 0;
}
static int exchange(char **a)
{
	char *own[] = { "own" };
	int error = write_file(own);
	if (error) return error;
	TRY(syscall(SYS_renameat2, AT_FDCWD, "own", AT_FDCWD, a[0], 2));
	return 0;
}
static int change_mode(char **a) { TRY(chmod(a[0], 0600)); return 0; }
static int change_mode_of_descriptor(char **a)
{
	int fd;
	TRY(fd = open(a[0], O_RDONLY));
	TRY(fchmod(fd, 0600));
	return 0;
}
static int change_mode_at2(char **a) { TRY(syscall(452, AT_FDCWD, a[0], 0600, 0)); return 0; }
static int change_owner(char **a) { TRY(chown(a[0], getuid(), getgid())); say("changed"); return 0; }
static int change_times(char **a)
{
	struct timespec past[2] = { { 1, 0 }, { 1, 0 } };
	TRY(utimensat(AT_FDCWD, a[0], past, 0));
	return 0;
}
static int fifo(char **a) { (void)a; TRY(mkfifo("fifo", 0600)); say("made"); return 0; }
static int socket_file(char **a) { (void)a; TRY(mknod("socket", S_IFSOCK | 0600, 0)); say("made"); return 0; }
static int open_to_write(char **a) { TRY(open(a[0], O_WRONLY)); say("opened"); return 0; }
static int open_to_read(char **a) { TRY(open(a[0], O_RDONLY | O_NONBLOCK | O_NOCTTY)); say("opened"); return 0; }
/* Leaves something where another run would find it; takes it away again. */
static int drop(char **a)
{
	char path[256];
	int fd;
	snprintf(path, sizeof path, "%s/hookjail-dropped-%d", a[0], getpid());
	TRY(fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
	unlink(path);
	say("dropped");
	return 0;
}
static int device_file(char **a) { (void)a; TRY(mknod("device", S_IFCHR | 0600, 0x103)); say("made"); return 0; }
static int block_file(char **a) { (void)a; TRY(mknod("block", S_IFBLK | 0600, 0x700)); say("made"); return 0; }
/* The one device file that needs no privilege. */
static int whiteout(char **a) { TRY(mknod(a[0], S_IFCHR | 0600, 0)); say("made"); return 0; }
/* The same by a call that is for something else. */
static int whiteout_by_rename(char **a)
{
	char *own[] = { "moved" };
	struct stat left;
	int error = write_file(own);
	(void)a;
	if (error) return error;
	TRY(syscall(SYS_renameat2, AT_FDCWD, "moved", AT_FDCWD, "moved-away", 4));
	TRY(stat("moved", &left));
	if (!S_ISCHR(left.st_mode)) return ENOTSUP;
	say("made");
	return 0;
}
/* Makes a file that lends whoever executes it the rights of this process's user or group. */
static int lend(char **a)
{
	struct stat made;
	mode_t mode = strtoul(a[1], NULL, 8);
	char *own[] = { "lent" };
	int fd = -1, error = 0;
	if (strstr(a[0], "chmod")) error = write_file(own);
	if (error) return error;
	if (!strcmp(a[0], "open")) {
#ifdef SYS_open
		TRY(fd = (int)syscall(SYS_open, "lent", O_WRONLY | O_CREAT, mode));
#else
		TRY(fd = openat(AT_FDCWD, "lent", O_WRONLY | O_CREAT, mode));
#endif
	} else if (!strcmp(a[0], "openat")) TRY(fd = openat(AT_FDCWD, "lent", O_WRONLY | O_CREAT, mode));
	else if (!strcmp(a[0], "unnamed")) TRY(fd = openat(AT_FDCWD, ".", O_TMPFILE | O_WRONLY, mode));
	else if (!strcmp(a[0], "openat2")) {
		uint64_t how[3] = { O_WRONLY | O_CREAT, mode, 0 };
		TRY(fd = (int)syscall(437, AT_FDCWD, "lent", how, sizeof how));
	} else if (!strcmp(a[0], "creat")) TRY(fd = creat("lent", mode));
	else if (!strcmp(a[0], "chmod")) TRY(chmod("lent", mode));
	else if (!strcmp(a[0], "chmod-descriptor")) {
		TRY(fd = open("lent", O_RDONLY));
		TRY(fchmod(fd, mode));
	} else if (!strcmp(a[0], "chmod-at2")) TRY(syscall(452, AT_FDCWD, "lent", mode, 0));
	else TRY(fchmodat(AT_FDCWD, "lent", mode, 0));
	if (fd < 0) TRY(fd = open("lent", O_RDONLY));
	TRY(fstat(fd, &made));
	if ((made.st_mode & (S_ISUID | S_ISGID)) == 0) return ENOTSUP;
	say("lent");
	return 0;
}
/* Takes room on the disk beyond the end of a file, which stays as small as it is. */
static int allocate(char **a)
{
	struct stat grown;
	int fd;
	signal(SIGXFSZ, SIG_IGN);
	TRY(fd = open("allocated", O_WRONLY | O_CREAT, 0600));
	TRY(fallocate(fd, atoi(a[0]), 0, atol(a[1])));
	TRY(fstat(fd, &grown));
	if (grown.st_blocks == 0) return ENOTSUP;
	say("allocated");
	return 0;
}
static int lock(char **a)
{
	int fd;
	TRY(fd = open(a[0], O_RDONLY));
	/* Shared: attempts of several tests at once get in each other's way no more than they must. */
	TRY(flock(fd, LOCK_SH | LOCK_NB));
	say("locked");
	return 0;
}
static int pipe_file(char **a) { TRY(mkfifo(a[0], 0600)); say("made"); return 0; }
static int socket_file_at(char **a) { TRY(mknod(a[0], S_IFSOCK | 0600, 0)); say("made"); return 0; }
/* A request that means nothing to this device: what is told is whether it gets as far as its driver. */
static int device_request(char **a)
{
	int fd;
	int answer = 0;
	TRY(fd = open(a[0], O_RDONLY));
	TRY(ioctl(fd, a[1] ? strtoul(a[1], 0, 0) : 0x5a5a, &answer));
	say("answered");
	return 0;
}
static int grow_file(char **a)
{
	int fd;
	signal(SIGXFSZ, SIG_IGN);
	TRY(fd = open("grown", O_WRONLY | O_CREAT, 0600));
	TRY(pwrite(fd, "x", 1, atol(a[0])));
	say("grown");
	return 0;
}
/* What it was started with belongs to whoever started it as well. */
static int unblock(char **a)
{
	(void)a;
	for (int fd = 0; fd < 3; fd++) TRY(fcntl(fd, F_SETFL, O_NONBLOCK));
	say("changed");
	return 0;
}
static int many_pipes(char **a)
{
	int ends[2];
	for (int i = 0; i < atoi(a[0]); i++) TRY(pipe(ends));
	say("made");
	return 0;
}
static int many_timers(char **a)
{
	timer_t timer;
	for (int i = 0; i < atoi(a[0]); i++) TRY(timer_create(CLOCK_MONOTONIC, 0, &timer));
	say("made");
	return 0;
}
static int set_attribute(char **a) { TRY(setxattr(a[0], "user.hookjail", "x", 1, 0)); say("set"); return 0; }
static int get_attribute(char **a)
{
	char value[8];
	ssize_t n;
	TRY(n = listxattr(a[0], value, 0));
	say("listed");
	return 0;
}
static int set_flags(char **a)
{
	int fd, flags = 0;
	TRY(fd = open(a[0], O_RDONLY));
	TRY(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	flags |= FS_NODUMP_FL;
	TRY(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	say("set");
	return 0;
}
/* By a handle, which names an inode and no path. */
static int read_by_handle(char **a)
{
	char memory[sizeof(struct file_handle) + 128];
	struct file_handle *handle = (struct file_handle *)memory;
	int mount, top, fd;
	handle->handle_bytes = 128;
	TRY(name_to_handle_at(AT_FDCWD, a[0], handle, &mount, 0));
	TRY(top = open(".", O_RDONLY));
	TRY(fd = open_by_handle_at(top, handle, O_RDONLY));
	return show(fd);
}
static int see(char **a) { struct stat found; TRY(stat(a[0], &found)); say("seen"); return 0; }
static int new_code(char **a)
{
	(void)a;
	if (mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return errno;
	say("mapped");
	return 0;
}
/* Puts a character into the terminal that reads stdin, were it one. */
static int type_in(char **a) { (void)a; TRY(ioctl(0, TIOCSTI, "x")); say("typed"); return 0; }
static int watch_all(char **a)
{
	int fd;
	TRY(fd = (int)syscall(SYS_fanotify_init, 0, O_RDONLY));
	TRY(syscall(SYS_fanotify_mark, fd, 1, (uint64_t)0x20, AT_FDCWD, a[0]));
	say("watching");
	return 0;
}
static int watch(char **a)
{
	int fd;
	TRY(fd = inotify_init1(0));
	TRY(inotify_add_watch(fd, a[0], IN_ALL_EVENTS));
	say("watching");
	return 0;
}

/* The network and local sockets. */

static struct sockaddr_in loopback(const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return to;
}
static socklen_t unix_address(struct sockaddr_un *to, const char *path)
{
	/* A leading @ stands for the abstract name space. */
	memset(to, 0, sizeof *to);
	to->sun_family = AF_UNIX;
	strncpy(to->sun_path, path, sizeof to->sun_path - 1);
	if (path[0] == '@') to->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + (path[0] != '@'));
}
static int connect_to(const char *port, int protocol)
{
	struct sockaddr_in to = loopback(port);
	int fd;
	TRY(fd = socket(AF_INET, SOCK_STREAM, protocol));
	TRY(connect(fd, (struct sockaddr *)&to, sizeof to));
	TRY(write(fd, "hello", 5));
	return 0;
}
static int tcp(char **a) { return connect_to(a[0], 0); }
static int mptcp(char **a) { return connect_to(a[0], 262); }
static int tcp_fast_open(char **a)
{
	struct sockaddr_in to = loopback(a[0]);
	int fd;
	TRY(fd = socket(AF_INET, SOCK_STREAM, 0));
	TRY(sendto(fd, "hello", 5, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof to));
	return 0;
}
static int tcp_listen(char **a)
{
	(void)a;
	int fd;
	TRY(fd = socket(AF_INET, SOCK_STREAM, 0));
	TRY(listen(fd, 1));
	say("listening");
	return 0;
}
static int tcp_bind(char **a)
{
	(void)a;
	struct sockaddr_in to = loopback("0");
	int fd;
	TRY(fd = socket(AF_INET, SOCK_STREAM, 0));
	TRY(bind(fd, (struct sockaddr *)&to, sizeof to));
	say("bound");
	return 0;
}
static int udp(char **a)
{
	struct sockaddr_in to = loopback(a[0]);
	int fd;
	TRY(fd = socket(AF_INET, SOCK_DGRAM, 0));
	TRY(sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, sizeof to));
	return 0;
}
static int unix_stream(char **a)
{
	struct sockaddr_un to;
	socklen_t length = unix_address(&to, a[0]);
	int fd;
	TRY(fd = socket(AF_UNIX, SOCK_STREAM, 0));
	TRY(connect(fd, (struct sockaddr *)&to, length));
	return 0;
}
static int unix_datagram(char **a)
{
	struct sockaddr_un to;
	socklen_t length = unix_address(&to, a[0]);
	int fd;
	TRY(fd = socket(AF_UNIX, SOCK_DGRAM, 0));
	TRY(sendto(fd, "hello", 5, 0, (struct sockaddr *)&to, length));
	return 0;
}
/* One half of a pair, addressed elsewhere: passes filters that look at socket() and connect() only. */
static int pair_sendto(char **a)
{
	struct sockaddr_un to;
	socklen_t length = unix_address(&to, a[0]);
	int pair[2];
	TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	TRY(sendto(pair[0], "hello", 5, 0, (struct sockaddr *)&to, length));
	return 0;
}
/* A stream half is connected, so that an address is refused by the kernel: a filter has to be there first. */
static int stream_sendto(char **a)
{
	struct sockaddr_un to;
	socklen_t length = unix_address(&to, a[0]);
	int pair[2];
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	TRY(sendto(pair[0], "hello", 5, 0, (struct sockaddr *)&to, length));
	return 0;
}
static int pair_sendmsg(char **a)
{
	struct sockaddr_un to;
	struct iovec text = { "hello", 5 };
	struct msghdr message = { .msg_name = &to, .msg_iov = &text, .msg_iovlen = 1 };
	int pair[2];
	message.msg_namelen = unix_address(&to, a[0]);
	TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	TRY(sendmsg(pair[0], &message, 0));
	return 0;
}
/* By write and read only: filters that look at send calls do not see it. */
static int netlink(char **a)
{
	(void)a;
	struct { struct nlmsghdr head; struct rtgenmsg body; } ask = {
		{ NLMSG_LENGTH(sizeof(struct rtgenmsg)), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 },
		{ AF_UNSPEC },
	};
	char answer[8192];
	ssize_t n;
	int fd;
	TRY(fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
	TRY(write(fd, &ask, sizeof ask));
	TRY(n = read(fd, answer, sizeof answer));
	if (n > 0) say("answered");
	return 0;
}
/* Of every family and type but the families that are named. */
static int any_socket(char **a)
{
	int worked = 0;
	for (int family = 0; family < 64; family++) {
		int named = 0;
		for (char **name = a; *name; name++) named |= atoi(*name) == family;
		for (int type = 1; type < 6 && !named; type++)
			if (socket(family, type, 0) >= 0) worked++;
	}
	if (worked) { say("made"); return 0; }
	return errno;
}

static int make_socket(char **a)
{
	TRY(socket(atoi(a[0]), atoi(a[1]), atoi(a[2])));
	say("made");
	return 0;
}
/* The kernel looks at the lower half of a domain only: a filter that compares all of it is passed by a dirty upper half. */
static int pair_dirty(char **a)
{
	(void)a;
	int pair[2];
	TRY(syscall(SYS_socketpair, AF_UNIX | 1L << 32, SOCK_DGRAM, 0, pair));
	say("made");
	return 0;
}
static int pipe_size(char **a)
{
	(void)a;
	int ends[2], size;
	TRY(pipe(ends));
	TRY(size = fcntl(ends[1], F_SETPIPE_SZ, 1 << 18));
	if (size >= 1 << 18) say("larger");
	return 0;
}

/* Processes. */

static int reap(pid_t child)
{
	int status;
	TRY(waitpid(child, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
static int start_process(char **a)
{
	(void)a;
	pid_t child;
	TRY(child = fork());
	if (!child) { say("started"); _exit(0); }
	return reap(child);
}
static int start_by_vfork(char **a)
{
	(void)a;
	pid_t child;
	TRY(child = vfork());
	if (!child) { say("started"); _exit(0); }
	return reap(child);
}
/* With the very flags of the one clone by which hooks are started, which the filters leave open until the last of them. */
static int started_alike(void *) { say("started"); _exit(0); }
static int start_alike(char **a)
{
	static char stack[65536] __attribute__((aligned(16)));
	int pidfd, child;
	(void)a;
	TRY(child = clone(started_alike, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, 0, &pidfd));
	return reap(child);
}
static int many_processes(char **a)
{
	for (int i = 0; i < atoi(a[0]); i++) {
		pid_t child;
		TRY(child = fork());
		if (!child) { pause(); _exit(0); }
	}
	say("started");
	return 0;
}
static int start_by_clone3(char **a)
{
	(void)a;
	uint64_t args[8] = { 0, 0, 0, 0, SIGCHLD, 0, 0, 0 };
	pid_t child;
	TRY(child = (pid_t)syscall(435, args, sizeof args));
	if (!child) { say("started"); _exit(0); }
	return reap(child);
}
static int start_beside(char **a)
{
	(void)a;
	/* A sibling instead of a child: it would be the daemon's. */
	long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (child < 0) return errno;
	if (child) say("started");
	return 0;
}
static int io_uring(char **a)
{
	(void)a;
	char params[120] = { 0 };
	TRY(syscall(425, 4, params));
	say("ring");
	return 0;
}
static int landlock(char **a) { (void)a; TRY(syscall(444, 0, 0, 1)); say("answered"); return 0; }
static int memory_file(char **a) { (void)a; TRY(syscall(SYS_memfd_create, "x", 0)); say("made"); return 0; }
static int in_child(int (*attempt)(void))
{
	pid_t child;
	TRY(child = fork());
	if (!child) _exit(attempt() < 0 ? errno : (say("left"), 0));
	return reap(child);
}
static int session(void) { return setsid(); }
static int group(void) { return setpgid(0, 0); }
static int new_session(char **a) { (void)a; return in_child(session); }
static int new_group(char **a) { (void)a; return in_child(group); }
/* Writes a copy of this program and executes that. */
static int execute_copy(char **a)
{
	char block[65536];
	ssize_t n;
	int from, to;
	TRY(from = open(a[0], O_RDONLY));
	TRY(to = open("copy", O_WRONLY | O_CREAT, 0755));
	while ((n = read(from, block, sizeof block)) > 0) TRY(write(to, block, (size_t)n));
	close(to);
	execl("./copy", "copy", "say", "executed", (char *)0);
	return errno;
}
/* Executes a program inside so many domains, none of which takes away more than block devices. */
static int nest(char **a)
{
	uint64_t handled = 1 << 11;
	int ruleset;
	TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(ruleset = (int)syscall(444, &handled, sizeof handled, 0));
	for (int layers = atoi(a[0]); layers > 0; layers--) TRY(syscall(446, ruleset, 0));
	close(ruleset);
	execv(a[1], a + 1);
	return errno;
}
static int execute(char **a) { execv(a[0], a); return errno; }
static int print(char **a) { say(a[0]); return 0; }

/* Another process of the same user: the first argument is its id. */

static int send_signal(char **a) { TRY(kill(atoi(a[0]), SIGWINCH)); return 0; }
static int signal_all(char **a)
{
	(void)a;
	signal(SIGWINCH, SIG_IGN);
	TRY(kill(-1, SIGWINCH));
	return 0;
}
/* Only where the test has seen that it reaches nobody, or everybody is the test's. */
static int signal_all_deadly(char **a) { (void)a; TRY(kill(-1, SIGKILL)); return 0; }
static int signal_thread(char **a) { TRY(syscall(SYS_tgkill, atoi(a[0]), atoi(a[0]), SIGWINCH)); return 0; }
static int signal_thread_unsafely(char **a) { TRY(syscall(SYS_tkill, atoi(a[0]), SIGWINCH)); return 0; }
static int signal_queued(char **a)
{
	union sigval value = { 0 };
	TRY(sigqueue(atoi(a[0]), SIGWINCH, value));
	return 0;
}
static int signal_descriptor(char **a)
{
	int fd;
	TRY(fd = (int)syscall(434, atoi(a[0]), 0));
	TRY(syscall(424, fd, SIGWINCH, 0, 0));
	return 0;
}
static int signal_by_io(char **a)
{
	int pair[2];
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	TRY(fcntl(pair[0], F_SETOWN, atoi(a[0])));
	TRY(fcntl(pair[0], F_SETSIG, SIGWINCH));
	TRY(fcntl(pair[0], F_SETFL, O_ASYNC));
	TRY(write(pair[1], "x", 1));
	return 0;
}
static int limit(char **a)
{
	struct rlimit files = { 17, 17 };
	TRY(syscall(SYS_prlimit64, atoi(a[0]), RLIMIT_NOFILE, &files, 0));
	return 0;
}
static int read_limit(char **a)
{
	struct rlimit files;
	TRY(syscall(SYS_prlimit64, atoi(a[0]), RLIMIT_NOFILE, 0, &files));
	say("read");
	return 0;
}
/* By the policy SCHED_IDLE, or the one that is named. */
static int schedule(char **a)
{
	int policy = a[1] ? atoi(a[1]) : SCHED_IDLE;
	struct sched_param priority = { .sched_priority = policy == SCHED_FIFO || policy == SCHED_RR };
	TRY(sched_setscheduler(atoi(a[0]), policy, &priority));
	say("changed");
	return 0;
}
/* A process; or a group or user, by a number that says which, and another priority. */
static int be_nice(char **a)
{
	int which = a[1] ? atoi(a[1]) : PRIO_PROCESS;
	TRY(setpriority(which, (id_t)atoi(a[0]), a[1] && a[2] ? atoi(a[2]) : 19));
	say("changed");
	return 0;
}
static int trace(char **a) { TRY(ptrace(PTRACE_SEIZE, atoi(a[0]), 0, 0)); say("traced"); return 0; }
static int read_memory(char **a)
{
	char text[16] = { 0 };
	struct iovec here = { text, 6 }, there = { (void *)strtoull(a[1], 0, 16), 6 };
	TRY(process_vm_readv(atoi(a[0]), &here, 1, &there, 1, 0));
	say(text);
	return 0;
}
static int take_descriptor(char **a)
{
	int fd;
	TRY(fd = (int)syscall(434, atoi(a[0]), 0));
	TRY(syscall(438, fd, 0, 0));
	say("taken");
	return 0;
}
static int read_proc(char **a)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%s/environ", a[0]);
	char *args[] = { path };
	return read_file(args);
}
static int read_line(char **a)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%s/cmdline", a[0]);
	char *args[] = { path };
	return read_file(args);
}
static int blame(char **a)
{
	char path[64];
	int fd;
	snprintf(path, sizeof path, "/proc/%s/oom_score_adj", a[0]);
	TRY(fd = open(path, O_WRONLY));
	TRY(write(fd, "1000", 4));
	say("changed");
	return 0;
}
static int pin(char **a)
{
	unsigned long cpus = 1;
	TRY(syscall(SYS_sched_setaffinity, atoi(a[0]), sizeof cpus, &cpus));
	say("changed");
	return 0;
}
static int lower_io(char **a)
{
	TRY(syscall(SYS_ioprio_set, a[1] ? atoi(a[1]) : 1, atoi(a[0]), 3 << 13));
	say("changed");
	return 0;
}
/* The only priority that its policy has. */
static int reschedule(char **a)
{
	struct sched_param none = { 0 };
	TRY(sched_setparam(atoi(a[0]), &none));
	say("changed");
	return 0;
}
static int compare(char **a)
{
	int pid = atoi(a[0]);
	TRY(syscall(SYS_kcmp, pid, pid, 1, 0, 0));
	say("compared");
	return 0;
}
static int advise(char **a)
{
	struct iovec there = { (void *)(strtoull(a[1], 0, 16) & ~4095ull), 4096 };
	int fd;
	TRY(fd = (int)syscall(434, atoi(a[0]), 0));
	TRY(syscall(440, fd, &there, 1, 20, 0));
	say("advised");
	return 0;
}
static int move_memory(char **a)
{
	unsigned long from = 1, to = 1;
	TRY(syscall(SYS_migrate_pages, atoi(a[0]), 8, &from, &to));
	say("moved");
	return 0;
}
static int posix_queue(char **a)
{
	(void)a;
	char name[64];
	snprintf(name, sizeof name, "hookjail-%d", getpid());
	TRY(syscall(SYS_mq_open, name, O_CREAT | O_RDWR, 0600, 0));
	syscall(SYS_mq_unlink, name);
	say("made");
	return 0;
}
static int shared_memory(char **a) { (void)a; int id; TRY(id = shmget(IPC_PRIVATE, 4096, 0600)); shmctl(id, IPC_RMID, 0); say("made"); return 0; }
static int semaphore(char **a) { (void)a; int id; TRY(id = semget(IPC_PRIVATE, 1, 0600)); semctl(id, 0, IPC_RMID); say("made"); return 0; }
static int message_queue(char **a) { (void)a; int id; TRY(id = msgget(IPC_PRIVATE, 0600)); msgctl(id, IPC_RMID, 0); say("made"); return 0; }
static int key(char **a) { (void)a; TRY(syscall(SYS_add_key, "user", "hookjail-test", "x", 1, -2)); say("made"); return 0; }

static volatile sig_atomic_t signals;
static char marker[] = "marker";
static void count(int s) { (void)s; signals++; }
/* Says where its marker lies, then answers every line with how many signals it had. */
static int stand_in(char **a)
{
	char line[64], text[64];
	struct sigaction action = { .sa_handler = count };
	(void)a;
	sigaction(SIGWINCH, &action, 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	/* A program that changed its user is not dumpable, which hides it from tracers: not what is tested. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	snprintf(text, sizeof text, "%p\n", (void *)marker);
	say(text);
	for (;;) {
		ssize_t n = read(0, line, sizeof line);
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return 0;
		snprintf(text, sizeof text, "%d\n", (int)signals);
		say(text);
	}
}

/* What no hook ever needs. */

static int int80(char **a)
{
	(void)a;
#ifdef __x86_64__
	long answer;
	/* getpid of the 32-bit table */
	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	if (answer == getpid()) say("answered");
	return 0;
#else
	return ENOSYS;
#endif
}
static int x32(char **a)
{
	(void)a;
	long answer = syscall(0x40000000 | SYS_getpid);
	if (answer == getpid()) say("answered");
	return answer < 0 ? errno : 0;
}
static int user_namespace(char **a) { (void)a; TRY(unshare(CLONE_NEWUSER)); say("made"); return 0; }

static int user_namespace_by_clone(char **a)
{
	(void)a;
	pid_t child;
	TRY(child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	if (!child) { say("made"); _exit(0); }
	return reap(child);
}
/* The calls that are made by name: their numbers differ between architectures. */
static const struct { const char *name; long number; } CALLS[] = {
	{ "acct", SYS_acct }, { "adjtimex", SYS_adjtimex }, { "finit_module", SYS_finit_module },
	{ "init_module", SYS_init_module }, { "ioctl", SYS_ioctl }, { "kexec_load", SYS_kexec_load }, { "keyctl", SYS_keyctl },
	{ "mount", SYS_mount }, { "mount_setattr", 442 }, { "move_mount", 429 },
	{ "open_by_handle_at", SYS_open_by_handle_at }, { "pidfd_getfd", 438 }, { "pivot_root", SYS_pivot_root },
	{ "quotactl", SYS_quotactl }, { "reboot", SYS_reboot }, { "request_key", SYS_request_key },
	{ "setdomainname", SYS_setdomainname }, { "sethostname", SYS_sethostname }, { "swapoff", SYS_swapoff },
	{ "swapon", SYS_swapon },
	{ "fanotify_init", SYS_fanotify_init },
	{ "setpgid", SYS_setpgid }, { "setsockopt", SYS_setsockopt },
	{ "socketpair", SYS_socketpair },
#ifdef __x86_64__
	{ "fork", SYS_fork },
	{ "ioperm", SYS_ioperm },
#endif
};
/* Or by its number, where a test has it from hookjail's own table. */
static long number_of(const char *name)
{
	if (*name >= '0' && *name <= '9') return atol(name);
	for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
		if (!strcmp(name, CALLS[i].name)) return CALLS[i].number;
	_exit(127);
}
/* A call by its name with small arguments, which cannot do any harm: what is told is whether the kernel looks at them. */
static int call(char **a)
{
	long args[6] = { 0 };
	long number = number_of(a[0]);
	for (int i = 0; i < 6 && a[i + 1]; i++) args[i] = strtol(a[i + 1], 0, 0);
	TRY(syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]));
	say("answered");
	return 0;
}
/* Each call by its number, with nothing but zeros and with nothing but ones for arguments: prints what it answered. */
static int doors(char **a)
{
	char text[32];
	for (; *a; a++)
		for (long word = 0; word >= -1; word--) {
			int error = syscall(atoi(*a), word, word, word, word, word, word) < 0 ? errno : 0;
			snprintf(text, sizeof text, "%s %d\n", *a, error);
			say(text);
		}
	return 0;
}
static int open_file_system(char **a) { (void)a; TRY(syscall(430, "tmpfs", 0)); say("opened"); return 0; }
static int copy_tree(char **a) { TRY(syscall(428, AT_FDCWD, a[0], 1)); say("copied"); return 0; }
static int unmount(char **a) { TRY(syscall(SYS_umount2, a[0], 0)); return 0; }
static int change_root(char **a) { TRY(chroot(a[0])); say("changed"); return 0; }
static int enter_namespace(char **a)
{
	int fd;
	(void)a;
	/* Its own: without /proc, where a hook has none, the call comes to nothing but the filter. */
	fd = open("/proc/self/ns/uts", O_RDONLY);
	TRY(setns(fd, 0));
	say("entered");
	return 0;
}
static int kernel_map(char **a)
{
	uint32_t map[16] = { 2, 4, 4, 1 };
	(void)a;
	TRY(syscall(SYS_bpf, 0, map, sizeof map));
	say("made");
	return 0;
}
static int count_events(char **a)
{
	/* PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, of itself, without the kernel. */
	uint64_t event[16] = { 1 | (uint64_t)128 << 32, 1, 0, 0, 0, 1 << 5 | 1 << 6 };
	(void)a;
	TRY(syscall(SYS_perf_event_open, event, 0, -1, -1, 0));
	say("counting");
	return 0;
}
static int fault_handler(char **a) { (void)a; TRY(syscall(SYS_userfaultfd, 1 | O_CLOEXEC)); say("made"); return 0; }
static int local_descriptors(char **a)
{
	(void)a;
#ifdef SYS_modify_ldt
	char table[64];
	TRY(syscall(SYS_modify_ldt, 0, table, sizeof table));
	say("read");
	return 0;
#else
	return ENOSYS;
#endif
}
static int no_randomness(char **a) { (void)a; TRY(syscall(SYS_personality, 0x40000)); say("set"); return 0; }
static int kernel_log(char **a) { char text[64]; (void)a; TRY(syscall(SYS_syslog, 3, text, sizeof text)); say("read"); return 0; }
static int set_clock(char **a)
{
	struct timespec never = { 0, -1 };
	(void)a;
	TRY(syscall(SYS_clock_settime, CLOCK_REALTIME, &never));
	return 0;
}
static int file_by_name(char **a) { TRY(syscall(number_of(a[0]), "/hookjail/none", 0)); return 0; }
static int filter_listener(char **a)
{
	struct { uint16_t code; uint8_t jt, jf; uint32_t k; } allow = { 6, 0, 0, 0x7fff0000 };
	struct { uint16_t length; void *filter; } program = { 1, &allow };
	(void)a;
	TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(syscall(SYS_seccomp, 1, 8, &program));
	say("listening");
	return 0;
}
static int another_filter(char **a)
{
	struct { uint16_t code; uint8_t jt, jf; uint32_t k; } allow = { 6, 0, 0, 0x7fff0000 };
	struct { uint16_t length; void *filter; } program = { 1, &allow };
	(void)a;
	TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	TRY(prctl(PR_SET_SECCOMP, 2, &program, 0, 0));
	say("loaded");
	return 0;
}
static int socket_option(int option, void *value, socklen_t length, const char *done)
{
	int pair[2];
	TRY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	TRY(setsockopt(pair[0], SOL_SOCKET, option, value, length));
	say(done);
	return 0;
}
static int socket_filter(char **a)
{
	struct { uint16_t code; uint8_t jt, jf; uint32_t k; } allow = { 6, 0, 0, 0xffffffff };
	struct { uint16_t length; void *filter; } program = { 1, &allow };
	(void)a;
	return socket_option(SO_ATTACH_FILTER, &program, sizeof program, "attached");
}
static int socket_size(char **a)
{
	int size = 65536;
	(void)a;
	return socket_option(SO_RCVBUF, &size, sizeof size, "set");
}
static int process_control(char **a)
{
	TRY(prctl(atoi(a[0]), strtoul(a[1], 0, 0), 0, 0, 0));
	say("set");
	return 0;
}
static int become(char **a) { uid_t to = (uid_t)atoi(a[0]); TRY(setresuid(to, to, to)); say("changed"); return 0; }
static int become_group(char **a) { gid_t to = (gid_t)atoi(a[0]); TRY(setresgid(to, to, to)); say("changed"); return 0; }
static int no_groups(char **a) { (void)a; TRY(syscall(SYS_setgroups, 0, 0)); say("changed"); return 0; }
static int raise_limit(char **a)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	(void)a;
	TRY(setrlimit(RLIMIT_FSIZE, &all));
	say("raised");
	return 0;
}
/* The soft limit alone, up again as far as the hard one, and then that. */
static int lower_limit(char **a)
{
	struct rlimit files;
	(void)a;
	TRY(getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max - 1;
	TRY(setrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max;
	TRY(setrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max = 17;
	TRY(setrlimit(RLIMIT_NOFILE, &files));
	say("lowered");
	return 0;
}
/* Numbers nobody has given a meaning yet: every one must be unknown. */
static int unknown_calls(char **a)
{
	(void)a;
	for (long number = 600; number < 4096; number++)
		if (syscall(number, 0, 0, 0, 0, 0, 0) != -1 || errno != ENOSYS) { say("known"); return 0; }
	return ENOSYS;
}

/* Many things, one after the other, each with its errno on a line of its own: what is told beforehand is compared with them. */

static void answer(int error)
{
	char text[16];
	snprintf(text, sizeof text, "%d\n", error);
	say(text);
}
/* A path in the scratch directory is written with an @ for it. */
static const char *in_scratch(const char *path, char *room, size_t size)
{
	if (path[0] != '@') return path;
	snprintf(room, size, "%s%s", getenv("HOME"), path + 1);
	return room;
}
static int lay(const char *path)
{
	int fd;
	TRY(fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0755));
	TRY(write(fd, "no program\n", 11));
	return close(fd);
}
static int peek(const char *path)
{
	char byte;
	int fd;
	TRY(fd = open(path, O_RDONLY));
	TRY(read(fd, &byte, 1));
	return close(fd);
}
static int open_and_write(const char *path, int flags)
{
	int fd;
	TRY(fd = open(path, O_WRONLY | flags, 0755));
	TRY(write(fd, "written", 7));
	return close(fd);
}
static int run_text(const char *path)
{
	char *args[] = { (char *)path, NULL }, *none[] = { NULL };
	execve(path, args, none);
	/* Text without an interpreter: the kernel has let it through, and finds nothing to execute. */
	return errno == ENOEXEC ? 0 : errno;
}
static int look_into(const char *path)
{
	DIR *dir = opendir(path);
	if (!dir) return errno;
	readdir(dir);
	return closedir(dir);
}
static int operate(const char *what, const char *one, const char *other)
{
#define IS(name) (!strcmp(what, name))
	if (IS("lay")) return lay(one);
	if (IS("read")) return peek(one);
	if (IS("write")) return open_and_write(one, 0);
	if (IS("create")) return open_and_write(one, O_CREAT | O_EXCL);
	if (IS("execute")) return run_text(one);
	if (IS("list")) return look_into(one);
	if (IS("overwrite")) return open_and_write(one, O_TRUNC);
	if (IS("make-directory")) TRY(mkdir(one, 0755));
	else if (IS("make-link")) TRY(symlink("nowhere", one));
	else if (IS("remove")) TRY(unlink(one));
	else if (IS("remove-directory")) TRY(rmdir(one));
	else if (IS("rename")) TRY(rename(one, other));
	else if (IS("link")) TRY(link(one, other));
	else if (IS("truncate")) TRY(truncate(one, 0));
	else return ENOTTY;
#undef IS
	return 0;
}
static int operations(char **a)
{
	char one[4096], other[4096];
	for (; a[0] && a[1] && a[2]; a += 3)
		answer(operate(a[0], in_scratch(a[1], one, sizeof one), in_scratch(a[2], other, sizeof other)));
	return 0;
}
static int calls(char **a)
{
	for (; *a; a += 7) {
		unsigned long n[7];
		for (int i = 0; i < 7; i++) n[i] = strtoul(a[i], NULL, 0);
		long result = syscall((long)n[0], n[1], n[2], n[3], n[4], n[5], n[6]);
		answer(result == -1 ? errno : 0);
	}
	return 0;
}

/* What it finds. */

static int environment(char **a)
{
	(void)a;
	for (char **line = environ; *line; line++) { say(*line); say("\n"); }
	return 0;
}
static int descriptors(char **a)
{
	char text[16];
	(void)a;
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0) { snprintf(text, sizeof text, "%d ", fd); say(text); }
	return 0;
}
static int state(char **a)
{
	struct rlimit core, files;
	struct stat here;
	char text[256];
	uid_t r, e, s;
	gid_t gr, ge, gs;
	(void)a;
	TRY(getrlimit(RLIMIT_CORE, &core));
	TRY(getrlimit(RLIMIT_NOFILE, &files));
	TRY(stat(".", &here));
	TRY(getresuid(&r, &e, &s));
	TRY(getresgid(&gr, &ge, &gs));
	snprintf(text, sizeof text, "uid %u %u %u\ngid %u %u %u, %d others\nscratch %o %u\ncore %lu %lu\nfiles %lu\nno_new_privs %d\nleader %d\numask %o\n", r, e, s,
		 gr, ge, gs, getgroups(0, 0),
		 here.st_mode & 07777, here.st_uid, (unsigned long)core.rlim_cur, (unsigned long)core.rlim_max,
		 (unsigned long)files.rlim_max, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), getpgrp() == getpid(), umask(0));
	say(text);
	return 0;
}
static int raise_signal(char **a) { raise(atoi(a[0])); say("survived"); return 0; }

static const struct name NAMES[] = {
	{ "advise", advise }, { "another-filter", another_filter }, { "any-socket", any_socket }, { "become", become },
	{ "allocate", allocate }, { "lend", lend }, { "lock", lock }, { "whiteout-by-rename", whiteout_by_rename },
	{ "become-group", become_group }, { "blame", blame }, { "block-file", block_file }, { "call", call },
	{ "calls", calls },
	{ "change-mode", change_mode }, { "change-mode-at2", change_mode_at2 },
	{ "change-mode-of-descriptor", change_mode_of_descriptor }, { "change-owner", change_owner },
	{ "change-root", change_root }, { "change-times", change_times }, { "compare", compare },
	{ "copy-tree", copy_tree }, { "count-events", count_events }, 
	{ "descriptors", descriptors }, { "device-request", device_request }, { "device-file", device_file }, { "doors", doors }, { "drop", drop },
	{ "enter-namespace", enter_namespace }, { "environment", environment }, { "exchange", exchange },
	{ "execute", execute }, { "execute-copy", execute_copy }, { "fault-handler", fault_handler }, { "fifo", fifo },
	{ "file-by-name", file_by_name }, { "filter-listener", filter_listener }, { "get-attribute", get_attribute },
	{ "grow-file", grow_file }, { "hard-link", hard_link }, { "int80", int80 }, { "io-uring", io_uring }, { "kernel-log", kernel_log },
	{ "kernel-map", kernel_map }, { "key", key }, { "landlock", landlock }, { "limit", limit }, { "list", list },
	{ "local-descriptors", local_descriptors }, { "lower-io", lower_io }, { "make-directory", make_directory },
	{ "make-socket", make_socket }, { "many-pipes", many_pipes }, { "many-processes", many_processes }, { "many-timers", many_timers }, { "memory-file", memory_file }, { "message-queue", message_queue },
	{ "move-memory", move_memory }, { "move-out", move_out }, { "mptcp", mptcp }, { "nest", nest }, { "netlink", netlink },
	{ "new-code", new_code }, { "new-group", new_group }, { "new-session", new_session }, { "nice", be_nice },
	{ "no-groups", no_groups }, { "no-randomness", no_randomness }, { "open-file-system", open_file_system },
	{ "operations", operations }, { "open-for-neither", open_for_neither },
	{ "open-for-neither-at", open_for_neither_at },
	{ "open-for-neither-by-openat2", open_for_neither_by_openat2 }, { "open-to-read", open_to_read }, { "open-to-write", open_to_write }, { "pair-dirty", pair_dirty },
	{ "pair-sendmsg", pair_sendmsg }, { "pair-sendto", pair_sendto }, { "pin", pin }, { "pipe-file", pipe_file },
	{ "pipe-size", pipe_size },
	{ "posix-queue", posix_queue }, { "process-control", process_control }, { "raise", raise_signal },
	{ "raise-limit", raise_limit }, { "lower-limit", lower_limit },
	{ "read", read_file }, { "read-by-handle", read_by_handle }, { "read-from-inside", read_from_inside },
	{ "read-limit", read_limit }, { "read-line", read_line }, { "read-memory", read_memory }, { "read-openat2", read_openat2 },
	{ "read-proc", read_proc }, { "read-reopened", read_reopened }, { "read-through-link", read_through_link },
	{ "remove", remove_file }, { "remove-directory", remove_directory }, { "rename", rename_file }, { "say", print }, { "schedule", schedule }, { "reschedule", reschedule },
	{ "see", see }, { "semaphore", semaphore }, { "set-attribute", set_attribute }, { "set-clock", set_clock },
	{ "set-flags", set_flags }, { "shared-memory", shared_memory }, { "signal", send_signal },
	{ "signal-all", signal_all }, { "signal-all-deadly", signal_all_deadly }, { "signal-by-io", signal_by_io },
	{ "signal-descriptor", signal_descriptor }, { "signal-queued", signal_queued },
	{ "signal-thread", signal_thread }, { "signal-thread-unsafely", signal_thread_unsafely },
	{ "socket-file", socket_file }, { "socket-file-at", socket_file_at }, { "socket-filter", socket_filter }, { "socket-size", socket_size }, { "stand-in", stand_in }, { "start-alike", start_alike }, { "start-beside", start_beside },
	{ "start-by-clone3", start_by_clone3 }, { "start-by-vfork", start_by_vfork },
	{ "start-process", start_process }, { "state", state }, { "stream-sendto", stream_sendto },
	{ "symbolic-link", symbolic_link }, { "take-descriptor", take_descriptor }, { "tcp", tcp },
	{ "tcp-bind", tcp_bind }, { "tcp-fast-open", tcp_fast_open }, { "tcp-listen", tcp_listen }, { "trace", trace },
	{ "truncate", truncate_path }, { "truncate-by-creat", truncate_by_creat },
	{ "truncate-by-openat2", truncate_by_openat2 }, { "truncate-by-reading", truncate_by_reading },
	{ "type-in", type_in }, { "udp", udp }, { "unblock", unblock },
	{ "unix-datagram", unix_datagram }, { "unix-stream", unix_stream },
	{ "unknown-calls", unknown_calls }, { "unnamed-file", unnamed_file }, { "unmount", unmount }, { "user-namespace", user_namespace },
	{ "user-namespace-by-clone", user_namespace_by_clone }, { "watch", watch }, { "watch-all", watch_all }, { "whiteout", whiteout },
	{ "write", write_file }, { "x32", x32 },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof NAMES / sizeof *NAMES; i++)
		if (!strcmp(argv[1], NAMES[i].name)) return NAMES[i].attempt(argv + 2);
	return 127;
}
