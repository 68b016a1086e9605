/*
 * Makes the system calls it is handed on stdin, one after the other, and says what the kernel answered to each.
 *
 * `player play OUTSIDE WORKSPACE` reads `{"calls":"CALL;CALL;…"}`, where a call is `NUMBER:ARGUMENT,…` as written by
 * `tests/spec/escape_fuzz/calls.rs`; after a `!`, one that must be refused. What it prints: `p PID SCRATCH` first; for each call `c INDEX ANSWER`, followed by
 * where its paths led before the call (`0=/…`, by argument) and what was opened (`o FLAGS=/…`); `e` last. Started with
 * any other arguments it was executed by such a call, and says so: `x PROGRAM`.
 *
 * The calls change everything about this process: memory, signals, descriptors, thread pointer. So it uses nothing of the
 * C library once it has begun, keeps what it needs where calls do not reach, and sets the rest up again every few calls.
 * A call that ends it all the same is the last one that was not answered.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Where arguments lie: known to whoever says what must become of a call. */
#define ARENA 0x7a0000000000ul
#define SLOT 0x4000ul
#define JUNK (ARENA + 0x100000ul)
#define JUNK_SIZE 0x10000ul
/* Out of reach of the descriptors that calls are made with. */
#define REPORT 200
#define HOME 201
#define AGAIN 16

typedef unsigned long word;

static char input[1 << 22], line[1 << 15];
static word at;

/* A child made by the call ends here: it may stand on a stack that is not its own. */
static __attribute__((noinline)) long made(word nr, const word *a)
{
	register word r10 __asm__("r10") = a[3];
	register word r8 __asm__("r8") = a[4];
	register word r9 __asm__("r9") = a[5];
	long answer;
	__asm__ volatile(
		"mov %%eax, %%r12d\n\t"
		"syscall\n\t"
		"test %%rax, %%rax\n\t"
		"jnz 1f\n\t"
		"cmp $435, %%r12d\n\t"
		"je 2f\n\t"
		"sub $56, %%r12d\n\t"
		"cmp $2, %%r12d\n\t"
		"ja 1f\n\t"
		"2: xor %%edi, %%edi\n\t"
		"mov $60, %%eax\n\t"
		"syscall\n\t"
		"1:"
		: "=a"(answer)
		: "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "r12", "memory");
	return answer;
}
static long own(word nr, word a, word b, word c, word d)
{
	word args[6] = { a, b, c, d, 0, 0 };
	return made(nr, args);
}
static word length(const char *text) { word n = 0; while (text[n]) n++; return n; }
static void put(char c) { if (at < sizeof line - 1) line[at++] = c; }
static void put_text(const char *text) { while (*text) put(*text++); }
static void put_number(long n)
{
	char digits[24];
	int i = 0;
	word left = n < 0 ? -(word)n : (word)n;
	if (n < 0) put('-');
	do digits[i++] = (char)('0' + left % 10); while (left /= 10);
	while (i) put(digits[--i]);
}
static void put_path(const char *path, long n)
{
	for (long i = 0; i < n; i++) {
		unsigned char c = (unsigned char)path[i];
		if (c > ' ' && c < 127 && c != '%') put((char)c);
		else { put('%'); put("0123456789abcdef"[c >> 4]); put("0123456789abcdef"[c & 15]); }
	}
}
static void flush(void)
{
	word done = 0;
	while (done < at) {
		long n = own(SYS_write, REPORT, (word)line + done, at - done, 0);
		if (n < 0 && n != -4) break;
		if (n > 0) done += (word)n;
	}
	at = 0;
}

/* Where a descriptor leads, whatever its path was. */
static long where(long fd, char *path, word size)
{
	char link[32] = "/proc/self/fd/";
	char digits[12];
	int n = 14, i = 0;
	do digits[i++] = (char)('0' + fd % 10); while (fd /= 10);
	while (i) link[n++] = digits[--i];
	link[n] = 0;
	return own(SYS_readlinkat, (word)AT_FDCWD, (word)link, (word)path, size);
}
static void put_where(long fd)
{
	static char path[8192];
	long n = where(fd, path, sizeof path);
	if (n < 0) put('?');
	else put_path(path, n);
}

/* What a path names just now: to its end, or to its directory and the name in there. */
static void put_resolved(int dir, const char *text, int to_its_end)
{
	static char parent[SLOT];
	word n = length(text), name;
	long fd;
	if (!n) { if (dir >= 0) put_where(dir); else put('?'); return; }
	if (to_its_end) {
		fd = own(SYS_openat, (word)(long)dir, (word)text, O_PATH | O_CLOEXEC, 0);
		if (fd < 0) { put('?'); return; }
		put_where(fd);
		own(SYS_close, (word)fd, 0, 0, 0);
		return;
	}
	while (n > 1 && text[n - 1] == '/') n--;
	for (name = n; name > 0 && text[name - 1] != '/'; name--);
	for (word i = 0; i < name; i++) parent[i] = text[i];
	parent[name] = 0;
	if (!name) { parent[0] = '.'; parent[1] = 0; }
	fd = own(SYS_openat, (word)(long)dir, (word)parent, O_PATH | O_CLOEXEC | O_DIRECTORY, 0);
	if (fd < 0) { put('?'); return; }
	put_where(fd);
	own(SYS_close, (word)fd, 0, 0, 0);
	put('/');
	put_path(text + name, (long)(n - name));
}

/* Signals: everything that can be caught is, and nothing is blocked. */
__asm__("back: mov $15, %eax\n\tsyscall");
extern void back(void);
static void caught(int signal) { (void)signal; }
struct kernel_action { void (*handler)(int); word flags; void (*restorer)(void); word mask; };
static const struct kernel_action catching = { caught, 0x04000000, back, 0 };
/* Calls that can be begun again are. */
static const struct kernel_action resuming = { caught, 0x14000000, back, 0 };
static void catch(word signal, const struct kernel_action *action) { own(SYS_rt_sigaction, signal, (word)action, 0, 8); }
static void catch_all(void)
{
	for (word signal = 1; signal < 65; signal++)
		if (signal != SIGSEGV && signal != SIGBUS && signal != SIGILL && signal != SIGFPE && signal != SIGTRAP && signal != SIGSYS)
			catch(signal, &resuming);
}

static void place(long fd, word wanted)
{
	if (fd < 0 || (word)fd == wanted) return;
	own(SYS_dup2, (word)fd, wanted, 0, 0);
	own(SYS_close, (word)fd, 0, 0, 0);
}
static long opened(const char *path, word flags) { return own(SYS_openat, (word)AT_FDCWD, (word)path, flags, 0700); }

static char *outside, *workspace, secret[4096];

static void set_up(void)
{
	int pair[2];
	own(SYS_close_range, 17, 199, 0, 0);
	own(SYS_fchdir, HOME, 0, 0, 0);
	own(SYS_umask, 077, 0, 0, 0);
	for (word fd = 0; fd < 3; fd++) place(opened("/dev/null", O_RDWR), fd);
	own(SYS_mkdir, (word)"d", 0700, 0, 0);
	own(SYS_mkdir, (word)"d/e", 0700, 0, 0);
	own(SYS_symlink, (word)secret, (word)"l0", 0, 0);
	own(SYS_symlink, (word)outside, (word)"l1", 0, 0);
	own(SYS_symlink, (word)"../../../../../..", (word)"l2", 0, 0);
	own(SYS_symlink, (word)"/proc/self/root", (word)"d/l3", 0, 0);
	place(opened("f", O_RDWR | O_CREAT), 3);
	place(opened(".", O_RDONLY | O_DIRECTORY), 4);
	if (!own(SYS_pipe2, (word)pair, O_NONBLOCK, 0, 0)) { place(pair[0], 5); place(pair[1], 6); }
	if (!own(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, (word)pair)) { place(pair[0], 7); place(pair[1], 8); }
	place(opened("/usr", O_RDONLY | O_DIRECTORY), 9);
	place(opened(outside, O_PATH), 10);
	place(opened(secret, O_PATH), 11);
	place(opened(workspace, O_RDONLY | O_DIRECTORY), 12);
	place(opened("/dev/null", O_RDWR), 13);
	place(own(SYS_epoll_create1, 0, 0, 0, 0), 14);
	place(own(SYS_eventfd2, 0, O_NONBLOCK, 0, 0), 15);
	own(SYS_mmap, JUNK, JUNK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
	word args[6] = { ARENA, 6 * SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, (word)-1, 0 };
	made(SYS_mmap, args);
	args[0] = JUNK; args[1] = JUNK_SIZE;
	made(SYS_mmap, args);
	catch_all();
}

/* Reading the calls. */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
static char *number(char *text, word *value)
{
	*value = 0;
	while (digit(*text) >= 0) *value = *value << 4 | (word)digit(*text++);
	return text;
}
static char *bytes(char *text, char *to)
{
	for (; digit(text[0]) >= 0 && digit(text[1]) >= 0; text += 2) *to++ = (char)(digit(text[0]) << 4 | digit(text[1]));
	return text;
}
static char *copied(char *text, char *to)
{
	while (*text && *text != ',' && *text != ';' && *text != '"') *to++ = *text++;
	*to = 0;
	return text;
}

/* What is known of an argument beyond its value: whether it is a path, relative to what, and how far it is followed. */
struct path { char dir, how; };

static char *argument(char *text, int index, word *value, struct path *path)
{
	char *slot = (char *)(ARENA + (word)index * SLOT);
	word *words = (word *)slot;
	char kind = *text++;
	path->how = 0;
	*value = (word)slot;
	switch (kind) {
	case 'x': return number(text, value);
	case 'P':
		path->dir = text[0];
		path->how = text[1];
		return copied(text + 2, slot);
	case 's': return copied(text, slot);
	case 'L': {
		word n;
		text = number(text, &n);
		for (word i = 0; i < n && 2 * i < SLOT - 2; i++) { slot[2 * i] = 'a'; slot[2 * i + 1] = '/'; slot[2 * i + 2] = 0; }
		return text;
	}
	case 'b': return bytes(text, slot);
	case 'z': for (int i = 0; i < 512; i++) slot[i] = 0; return text;
	case 'v':
		words[0] = (word)slot + 512; words[1] = 16;
		words[2] = (word)slot + 1024; words[3] = 64;
		return text;
	case 'm':
		text = bytes(text, slot + 256);
		words[0] = (word)slot + 256; words[1] = 110;
		words[2] = (word)slot + 128; words[3] = 1;
		words[4] = words[5] = words[6] = 0;
		words[16] = (word)slot + 1024; words[17] = 8;
		return text;
	case 'e': words[0] = (word)slot + 256; words[1] = 0; slot[256] = 'x'; slot[257] = 0; return text;
	case 'j': *value = JUNK; return text;
	/* Nothing was written for it. */
	default: *value = 0; return text - 1;
	}
}

static char *play(char *text, long index)
{
	static const word clock[4] = { 0, 2000, 0, 2000 };
	static const word nothing = 0;
	static word args[6];
	static struct path paths[6];
	word nr;
	long answer;
	int i, refused = *text == '!';
	text = number(text + refused, &nr);
	for (i = 0; i < 6; i++) { args[i] = 0; paths[i].how = 0; }
	for (i = 0; i < 6 && (*text == ':' || *text == ','); i++) text = argument(text + 1, i, &args[i], &paths[i]);
	at = 0;
	put_text("c "); put_number(index); put(' ');
	word answer_at = at;
	for (i = 0; i < 6; i++) {
		if (!paths[i].how) continue;
		int dir = paths[i].dir == '-' ? AT_FDCWD : (int)args[paths[i].dir - '0'];
		put(' '); put_number(i); put('=');
		put_resolved(dir, (char *)args[i], paths[i].how == 'f');
	}
	/*
	 * What blocks is woken, whatever earlier calls did about signals. But a program that is executed would find the clock
	 * running and nobody to catch it, and who is refused by a word of the daemon's would not wait for it.
	 */
	catch(SIGALRM, refused ? &resuming : &catching);
	own(SYS_rt_sigprocmask, SIG_SETMASK, (word)&nothing, 0, 8);
	if (!refused && (unsigned)nr != SYS_execve && (unsigned)nr != SYS_execveat) own(SYS_setitimer, 0, (word)clock, 0, 0);
	answer = made(nr, args);
	own(SYS_setitimer, 0, (word)(const word[4]){ 0, 0, 0, 0 }, 0, 0);
	nr = (unsigned)nr;
	if (answer >= 0 && answer < REPORT && (nr == SYS_open || nr == SYS_openat || nr == SYS_creat || nr == 437)) {
		put_text(" o"); put_number(own(SYS_fcntl, (word)answer, F_GETFL, 0, 0)); put('=');
		put_where(answer);
		own(SYS_close, (word)answer, 0, 0, 0);
	}
	if (nr == SYS_clone || nr == SYS_fork || nr == SYS_vfork)
		while (own(SYS_wait4, (word)-1, 0, WNOHANG | __WALL, 0) > 0);
	/* The answer goes before what was resolved, and is known after it. */
	word rest = at;
	put_number(answer);
	char digits[24];
	word n = at - rest;
	for (word k = 0; k < n; k++) digits[k] = line[rest + k];
	for (word k = rest; k > answer_at; k--) line[k - 1 + n] = line[k - 1];
	for (word k = 0; k < n; k++) line[answer_at + k] = digits[k];
	put('\n');
	flush();
	return text;
}

/* A program in the scratch directory, to be executed if that were possible. */
static void copy_itself(void)
{
	long from = opened("/proc/self/exe", O_RDONLY), to = opened("c", O_WRONLY | O_CREAT);
	while (own(SYS_sendfile, (word)to, (word)from, 0, 1 << 20) > 0);
	own(SYS_close, (word)from, 0, 0, 0);
	own(SYS_close, (word)to, 0, 0, 0);
}

int main(int argc, char **argv)
{
	static char scratch[4096];
	word have = 0;
	long n;
	if (argc < 4 || length(argv[1]) != 4 || argv[1][0] != 'p') {
		n = own(SYS_readlinkat, (word)AT_FDCWD, (word)"/proc/self/exe", (word)scratch, sizeof scratch);
		put_text("x ");
		put_path(scratch, n < 0 ? 0 : n);
		put('\n');
		flush();
		return 0;
	}
	outside = argv[2];
	workspace = argv[3];
	for (n = 0; outside[n]; n++) secret[n] = outside[n];
	for (int i = 0; i < 8; i++) secret[n + i] = "/secret"[i];
	while ((n = own(SYS_read, 0, (word)input + have, sizeof input - 1 - have, 0)) > 0) have += (word)n;
	char *text = input;
	while (*text && *text != ':') text++;
	while (*text && *text != '"') text++;
	own(SYS_dup2, 1, REPORT, 0, 0);
	place(opened(".", O_PATH | O_DIRECTORY), HOME);
	n = where(HOME, scratch, sizeof scratch);
	put_text("p "); put_number(own(SYS_getpid, 0, 0, 0, 0)); put(' '); put_path(scratch, n < 0 ? 0 : n); put('\n');
	flush();
	copy_itself();
	long index = 0;
	while (*text == '"' ? index == 0 && text[1] && text[1] != '"' : *text == ';') {
		if (index % AGAIN == 0) set_up();
		text = play(text + 1, index++);
	}
	at = 0;
	put_text("e\n");
	flush();
	own(SYS_exit_group, 0, 0, 0, 0);
	return 0;
}
