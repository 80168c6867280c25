/* A program that does a bit of everything, and one thing differently if `PLANTED` names it. Each of
 * its parts is a function or thread with a name, and takes some milliseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *planted = "none";
static char folder[3000], path[4000];

static int is(const char *kind) { return !strcmp(planted, kind); }
static int choose(const char *kind, int changed, int usual) { return is(kind) ? changed : usual; }
static void name(const char *name) { prctl(PR_SET_NAME, name); }
static void check(int is_good) { if (!is_good) _exit(1); }

static void sleep_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void pin(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static void unpin(void) {
    cpu_set_t cpus;
    memset(&cpus, -1, sizeof cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

/* A function that computes for a number of microseconds on a usual machine. Each is a copy. */
#define COMPUTES(function)                                                        \
    __attribute__((noinline)) static void function(int us) {                      \
        unsigned long x = us;                                                     \
        for (long i = 0; i < us * 1000L; i++) {                                    \
            x = x * 6364136223846793005UL + 1442695040888963407UL;                \
            __asm__ volatile("" : "+r"(x));                                       \
        }                                                                         \
    }
COMPUTES(parse)
COMPUTES(render)
COMPUTES(validate)
COMPUTES(hash)
COMPUTES(hold_lock)
COMPUTES(hold_other_lock)
COMPUTES(work_item)
COMPUTES(produce)
COMPUTES(answer_pipe)
COMPUTES(answer_socket)
COMPUTES(answer_tcp)
COMPUTES(answer_events)
COMPUTES(child_work)
COMPUTES(handle_signal)
COMPUTES(send_message)
COMPUTES(post_set)
COMPUTES(hold_file)
COMPUTES(help)
COMPUTES(share)
COMPUTES(contended)
COMPUTES(pinned_work)
COMPUTES(last_step)

__attribute__((noinline)) static void layout(void) { render(choose("deeper", 26000, 12000)); }

/* Walks a matrix by rows or by columns. */
__attribute__((noinline)) static void walk(void) {
    enum { SIZE = 2048 };
    static int matrix[SIZE][SIZE];
    static volatile long sum;
    int is_by_column = is("stride");
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) sum += is_by_column ? matrix[j][i]++ : matrix[i][j]++;
}

static pthread_t start(void *function) {
    pthread_t thread;
    check(!pthread_create(&thread, NULL, function, NULL));
    return thread;
}

/* Locks. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static sem_t held;

static void *holder(void *unused) {
    name("holder");
    pthread_mutex_lock(&mutex);
    sem_post(&held);
    hold_lock(choose("longlock", 24000, 6000));
    if (is("locksleep")) sleep_us(20000);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *other_holder(void *unused) {
    name("newholder");
    pthread_mutex_lock(&other);
    sem_post(&held);
    hold_other_lock(20000);
    pthread_mutex_unlock(&other);
    return NULL;
}

static void lock_of(void *function, pthread_mutex_t *mutex) {
    sem_init(&held, 0, 0);
    pthread_t thread = start(function);
    sem_wait(&held);
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    pthread_join(thread, NULL);
}

/* Two threads use one lock, for a short or a long time. */
static void *contender(void *unused) {
    name("contender");
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        if (is("convoy")) contended(1000);
        pthread_mutex_unlock(&mutex);
        if (!is("convoy")) contended(200);
    }
    return NULL;
}

static void contend(void) {
    pthread_t one = start(contender), two = start(contender);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
}

/* A queue. */
static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_condition = PTHREAD_COND_INITIALIZER;
static volatile int queued;

static void *producer(void *unused) {
    name("producer");
    for (int i = 0; i < 10; i++) {
        produce(choose("producer", 3000, 700));
        pthread_mutex_lock(&queue_mutex);
        queued++;
        pthread_cond_signal(&queue_condition);
        pthread_mutex_unlock(&queue_mutex);
    }
    return NULL;
}

__attribute__((noinline)) static void spin_wait(void) {
    while (!queued)
        for (int i = 0; i < 100; i++) __asm__ volatile("" : : : "memory");
}

static void consume(void) {
    pthread_t thread = start(producer);
    for (int i = 0; i < 10; i++) {
        if (is("spin")) spin_wait();
        pthread_mutex_lock(&queue_mutex);
        while (!queued) pthread_cond_wait(&queue_condition, &queue_mutex);
        queued--;
        pthread_mutex_unlock(&queue_mutex);
    }
    pthread_join(thread, NULL);
}

/* Threads. */
static void *joined(void *unused) {
    name("joined");
    work_item(choose("join", 26000, 6000));
    return NULL;
}

static void *helper(void *unused) {
    name("newhelper");
    help(60000);
    return NULL;
}

static void *nothing(void *unused) { return NULL; }

static void *sharer(void *unused) {
    name("sharer");
    share(14000);
    return NULL;
}

static void share_work(void) {
    if (is("serial")) {
        share(28000);
        return;
    }
    pthread_t thread = start(sharer);
    share(14000);
    pthread_join(thread, NULL);
}

/* Peers that answer requests. */
typedef struct { int in, out; } Ends;

static pid_t serve(const char *label, Ends ends, void (*answer)(int), int us, int wait_us) {
    pid_t pid = fork();
    if (pid) return pid;
    name(label);
    char byte;
    while (read(ends.in, &byte, 1) == 1 && byte != 'q') {
        answer(us);
        if (wait_us) sleep_us(wait_us);
        check(write(ends.out, &byte, 1) == 1);
    }
    _exit(0);
}

static void ask(Ends ends, int events, pid_t pid) {
    char byte = 'x';
    for (int i = 0; i < 10; i++) {
        check(write(ends.out, &byte, 1) == 1);
        struct epoll_event event;
        if (events >= 0) epoll_wait(events, &event, 1, -1);
        check(read(ends.in, &byte, 1) == 1);
    }
    byte = 'q';
    check(write(ends.out, &byte, 1) == 1);
    waitpid(pid, NULL, 0);
}

static void ask_pipe(void) {
    int there[2], back[2];
    check(!pipe(there) && !pipe(back));
    int us = choose("pipe", 2500, 500);
    pid_t pid = serve("pipe-peer", (Ends){there[0], back[1]}, answer_pipe, us, is("backend") * 2000);
    ask((Ends){back[0], there[1]}, -1, pid);
}

static void ask_socket(void) {
    int both[2];
    check(!socketpair(AF_UNIX, SOCK_STREAM, 0, both));
    int us = choose("socket", 2500, 500);
    pid_t pid = serve("socket-peer", (Ends){both[1], both[1]}, answer_socket, us, 0);
    ask((Ends){both[0], both[0]}, -1, pid);
}

static void ask_tcp(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    check(!bind(listener, (void *)&address, sizeof address) && !listen(listener, 1));
    check(!getsockname(listener, (void *)&address, &length));
    check(!connect(client, (void *)&address, sizeof address));
    int server = accept(listener, NULL, NULL);
    pid_t pid = serve("tcp-peer", (Ends){server, server}, answer_tcp, choose("tcp", 2500, 500), 0);
    ask((Ends){client, client}, -1, pid);
}

static void ask_events(void) {
    int there[2], back[2], events = epoll_create1(0);
    check(!pipe(there) && !pipe(back));
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(events, EPOLL_CTL_ADD, back[0], &event);
    int us = choose("epoll", 2500, 500);
    pid_t pid = serve("events-peer", (Ends){there[0], back[1]}, answer_events, us, 0);
    ask((Ends){back[0], there[1]}, events, pid);
}

/* Processes. */
static void wait_for_child(void) {
    pid_t pid = fork();
    if (!pid) {
        name("worker-child");
        child_work(choose("child", 26000, 6000));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void run_programs(void) {
    for (int i = 0; i < choose("programs", 40, 2); i++) {
        pid_t pid = vfork();
        if (!pid) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
    }
}

static void wait_for_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t parent = getpid(), pid = fork();
    if (!pid) {
        name("signaller");
        handle_signal(choose("signal", 24000, 4000));
        kill(parent, SIGUSR1);
        _exit(0);
    }
    sigwaitinfo(&set, NULL);
    waitpid(pid, NULL, 0);
}

static void wait_for_message(void) {
    struct { long type; char byte; } message = {1, 'x'};
    int queue = msgget(IPC_PRIVATE, 0600);
    pid_t pid = fork();
    if (!pid) {
        name("sender");
        send_message(choose("message", 24000, 4000));
        msgsnd(queue, &message, 1, 0);
        _exit(0);
    }
    msgrcv(queue, &message, 1, 0, 0);
    msgctl(queue, IPC_RMID, NULL);
    waitpid(pid, NULL, 0);
}

static void wait_for_set(void) {
    struct sembuf down = {0, -1, 0}, up = {0, 1, 0};
    int set = semget(IPC_PRIVATE, 1, 0600);
    pid_t pid = fork();
    if (!pid) {
        name("poster");
        post_set(choose("semset", 24000, 4000));
        semop(set, &up, 1);
        _exit(0);
    }
    semop(set, &down, 1);
    semctl(set, 0, IPC_RMID);
    waitpid(pid, NULL, 0);
}

static void wait_for_file(void) {
    int ready[2];
    char byte = 'x';
    check(!pipe(ready));
    snprintf(path, sizeof path, "%s/locked", folder);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    pid_t pid = fork();
    if (!pid) {
        name("file-holder");
        int own = open(path, O_RDWR);
        flock(own, LOCK_EX);
        check(write(ready[1], &byte, 1) == 1);
        hold_file(choose("filelock", 24000, 4000));
        flock(own, LOCK_UN);
        _exit(0);
    }
    check(read(ready[0], &byte, 1) == 1);
    flock(file, LOCK_EX);
    flock(file, LOCK_UN);
    waitpid(pid, NULL, 0);
}

/* System calls. */
static void call(void) {
    struct stat status;
    static char buffer[64 << 10];
    for (int i = 0; i < choose("calls", 60000, 1000); i++) syscall(SYS_getppid);
    for (int i = 0; i < choose("stats", 16000, 500); i++) syscall(SYS_stat, "/usr/lib", &status);
    for (int i = 0; i < choose("yields", 12000, 100); i++) sched_yield();
    for (int i = 0; i < choose("opens", 6000, 100); i++) close(open("/etc/passwd", O_RDONLY));
    for (int i = 0; i < choose("maps", 8000, 100); i++) {
        void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(map, 4096);
    }
    size_t random = choose("longcalls", 48 << 10, 64);
    for (int i = 0; i < 200; i++) getrandom(buffer, random, 0);
    snprintf(path, sizeof path, "%s/file", folder);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    size_t size = choose("smallwrites", 2, sizeof buffer);
    for (size_t at = 0; at < sizeof buffer; at += size) check(write(file, buffer, size) > 0);
    lseek(file, 0, SEEK_SET);
    size = choose("smallreads", 2, sizeof buffer);
    while (read(file, buffer, size) > 0) {}
    close(file);
}

/* Time. */
static void wait_for_time(void) {
    sleep_us(choose("longtimer", 26000, 6000));
    if (is("newtimer")) poll(NULL, 0, 20);
}

/* Disks: the file has 8 MiB. */
static void write_data(void) {
    static char block[1 << 20];
    memset(block, 1, sizeof block);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (lseek(file, 0, SEEK_END) < 8 << 20) {
        lseek(file, 0, SEEK_SET);
        for (int i = 0; i < 8; i++) check(write(file, block, sizeof block) > 0);
        fsync(file);
    }
    close(file);
}

static void use_disk(void) {
    snprintf(path, sizeof path, "%s/data", folder);
    static char block[1 << 16] __attribute__((aligned(4096)));
    int file = open(path, O_RDWR);
    if (is("cold")) posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    while (read(file, block, sizeof block) > 0) {}
    for (int i = 0; i < choose("fsync", 40, 2); i++) {
        check(pwrite(file, block, 4096, i * 4096) > 0);
        fsync(file);
    }
    close(file);
    int direct = open(path, O_RDONLY | O_DIRECT);
    for (int i = 0; i < choose("moredisk", 120, 8); i++) 
        check(pread(direct, block, sizeof block, (off_t)i << 16) > 0);
    close(direct);
}

/* CPUs. */
static void compute_beside(void) {
    pin(0);
    int ends[2];
    char byte = 'x';
    check(!pipe(ends));
    int has_rival = is("neighbour") || is("rivals") || is("rivals-nice") || is("realtime");
    struct sched_param priority = {0};
    int is_shared = !strncmp(planted, "rivals", 6);
    if (is_shared) {
        sched_setscheduler(0, SCHED_OTHER, &priority);
        setpriority(PRIO_PROCESS, 0, -20);
    }
    pid_t pid = has_rival ? fork() : 0;
    if (has_rival && !pid) {
        name("rival");
        priority.sched_priority = 1;
        if (is("realtime")) sched_setscheduler(0, SCHED_FIFO, &priority);
        check(write(ends[1], &byte, 1) == 1);
        help(is("realtime") ? 25000 : 1000000);
        _exit(0);
    }
    if (has_rival) check(read(ends[0], &byte, 1) == 1);
    int usual = getpriority(PRIO_PROCESS, 0);
    if (is("rivals-nice")) setpriority(PRIO_PROCESS, 0, usual + 5);
    hash(12000);
    if (has_rival) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    setpriority(PRIO_PROCESS, 0, usual);
    unpin();
}

static void *pinned(void *unused) {
    name("pinned");
    pin(1);
    pinned_work(16000);
    return NULL;
}

static void compute_pinned(void) {
    if (is("affinity")) pin(1);
    pthread_t thread = start(pinned);
    pinned_work(16000);
    pthread_join(thread, NULL);
    unpin();
}

/* Memory. */
static void touch(void) {
    for (int i = 0; i < choose("faults", 30, 1); i++) {
        size_t size = 2 << 20;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(memory, size, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
        munmap(memory, size);
    }
}

static void leak(void) {
    size_t size = choose("leak", 64, 1) << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
}

/* Control groups, in which the requests to a disk can be limited. */
static const struct { const char *root, *limit, *form; } groups[] = {
    {"/sys/fs/cgroup/blkio", "blkio.throttle.read_iops_device", "%u:%u 40"},
    {"/sys/fs/cgroup", "io.max", "%u:%u riops=40"},
};

static int write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    int is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) close(file);
    return is_written;
}

static void slow_disk(void) {
    if (!is("slowdisk")) {
        use_disk();
        return;
    }
    struct stat status;
    stat(folder, &status);
    write_text("/sys/fs/cgroup/cgroup.subtree_control", "+io");
    char group[64], text[128], limit[64];
    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/changed-%d", groups[i].root, getpid());
        if (mkdir(group, 0700) < 0) continue;
        snprintf(text, sizeof text, "%s/%s", group, groups[i].limit);
        snprintf(limit, sizeof limit, groups[i].form, major(status.st_dev), minor(status.st_dev));
        if (write_text(text, limit)) {
            snprintf(text, sizeof text, "%s/cgroup.procs", group);
            write_text(text, "0");
            use_disk();
            snprintf(text, sizeof text, "%s/cgroup.procs", groups[i].root);
            write_text(text, "0");
            i = 2;
        }
        rmdir(group);
    }
}

int main(int count, char **args) {
    if (count > 1) snprintf(folder, sizeof folder, "%s", args[1]);
    if (getenv("PLANTED")) planted = getenv("PLANTED");
    snprintf(path, sizeof path, "%s/data", folder);
    write_data();
    if (is("nothing")) return 0;
    pthread_t helping = 0;
    if (is("thread")) helping = start(helper);
    parse(is("faster") ? 24000 : choose("slower", 48000, 40000));
    layout();
    if (is("function")) validate(16000);
    walk();
    lock_of(holder, &mutex);
    if (is("newlock")) lock_of(other_holder, &other);
    contend();
    consume();
    pthread_join(start(joined), NULL);
    if (helping) pthread_join(helping, NULL);
    for (int i = 0; i < choose("threads", 120, 2); i++) pthread_join(start(nothing), NULL);
    share_work();
    ask_pipe();
    ask_socket();
    ask_tcp();
    ask_events();
    wait_for_child();
    run_programs();
    wait_for_signal();
    wait_for_message();
    wait_for_set();
    wait_for_file();
    call();
    wait_for_time();
    slow_disk();
    compute_beside();
    compute_pinned();
    touch();
    leak();
    last_step(3000);
    return 0;
}
