/* Programs with a known cause of slowness. Each runs in a process of its own, named `KIND-NUMBER`;
 * its helper is a thread or process named `peer`. The number is the time in milliseconds. The
 * arguments are a folder, and numbers for all kinds or names for one of them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long counter;

static long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Uses the CPU for a time. */
__attribute__((noinline)) static void busy_function(int ms) {
    long end = cpu_ns() + ms * 1000000L;
    do
        for (int i = 0; i < 20000; i++) counter++;
    while (cpu_ns() < end);
}

static void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void name(const char *name) { prctl(PR_SET_NAME, name); }

static void pin(int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

static int time_ms;
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_ready;
static sem_t semaphore;
static int set_id, event, port, lock_file;
static pid_t main_pid;
static char scratch[4096];

/* Starts a function in a thread named `peer`. */
static pthread_t peer(void (*function)(void)) {
    pthread_t thread;
    pthread_create(&thread, NULL, (void *(*)(void *))(void *)function, NULL);
    return thread;
}

/* The peer has the lock; the other thread is about to wait for it. */
static sem_t is_held, is_waiting;

/* Called by the peer, which has the lock: returns when the other thread waits for it. */
static void held(void) {
    sem_post(&is_held);
    sem_wait(&is_waiting);
    sleep_ms(1);
}

static void wait_for_holder(void) {
    sem_wait(&is_held);
    sem_post(&is_waiting);
}

#define PEER name("peer")

static void holds_busy(void) {
    PEER;
    pthread_mutex_lock(&mutex);
    held();
    busy_function(time_ms);
    pthread_mutex_unlock(&mutex);
}

static void lock(void) {
    pthread_t thread = peer(holds_busy);
    wait_for_holder();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

static void holds_asleep(void) {
    PEER;
    pthread_mutex_lock(&mutex);
    held();
    sleep_ms(time_ms);
    pthread_mutex_unlock(&mutex);
}

static void lock_of_sleeper(void) {
    pthread_t thread = peer(holds_asleep);
    wait_for_holder();
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

/* A new lock: many short waits. */
static void holds_often(void) {
    PEER;
    for (int i = 0; i < 8; i++) {
        pthread_mutex_lock(&mutex);
        sem_post(&semaphore);
        busy_function(time_ms / 8);
        pthread_mutex_unlock(&mutex);
    }
}

static void short_locks(void) {
    sem_init(&semaphore, 0, 0);
    pthread_t thread = peer(holds_often);
    for (int i = 0; i < 8; i++) {
        sem_wait(&semaphore);
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
}

static void signals_condition(void) {
    PEER;
    busy_function(time_ms);
    pthread_mutex_lock(&mutex);
    is_ready = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void condition_variable(void) {
    pthread_mutex_lock(&mutex);
    pthread_t thread = peer(signals_condition);
    while (!is_ready) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

static void only_busy(void) {
    PEER;
    busy_function(time_ms);
}

static void join(void) { pthread_join(peer(only_busy), NULL); }

static void posts(void) {
    PEER;
    busy_function(time_ms);
    sem_post(&semaphore);
}

static void posix_semaphore(void) {
    sem_init(&semaphore, 0, 0);
    pthread_t thread = peer(posts);
    sem_wait(&semaphore);
    pthread_join(thread, NULL);
}

static void system_calls(void) {
    for (int i = 0; i < time_ms * 400; i++) syscall(SYS_getppid);
}

static void stats(void) {
    struct stat status;
    for (int i = 0; i < time_ms * 200; i++) syscall(SYS_stat, "/usr/lib/x86_64-linux-gnu", &status);
}

static void timer(void) { sleep_ms(time_ms); }

static void timer_file(void) {
    int file = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec time = {.it_value = {0, time_ms * 1000000L}};
    timerfd_settime(file, 0, &time, NULL);
    long count;
    if (read(file, &count, sizeof count) < 0) _exit(1);
}

static void poll_timeout(void) { poll(NULL, 0, time_ms); }

static void epoll_timeout(void) {
    struct epoll_event events[1];
    epoll_wait(epoll_create1(0), events, 1, time_ms);
}

static void lock_timeout(void) {
    int word = 1;
    struct timespec time = {0, time_ms * 1000000L};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, &time, NULL, 0);
}

static void writes(void) {
    PEER;
    busy_function(time_ms);
    if (write(ends[1], "x", 1) != 1) _exit(1);
}

static void reads(void) {
    char byte;
    pthread_t thread = peer(writes);
    if (read(ends[0], &byte, 1) != 1) _exit(1);
    pthread_join(thread, NULL);
}

static void pipe_peer(void) {
    if (pipe(ends) < 0) _exit(1);
    reads();
}

static void socket_peer(void) {
    int both[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, both);
    ends[0] = both[0], ends[1] = both[1];
    reads();
}

static void datagram_peer(void) {
    int both[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, both);
    ends[0] = both[0], ends[1] = both[1];
    reads();
}

static void tcp_peer(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bind(listener, (struct sockaddr *)&address, length);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[1], (struct sockaddr *)&address, length);
    ends[0] = accept(listener, NULL, NULL);
    reads();
}

static void connects(void) {
    PEER;
    busy_function(time_ms);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = port};
    connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

static void accept_peer(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bind(listener, (struct sockaddr *)&address, length);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    port = address.sin_port;
    pthread_t thread = peer(connects);
    accept(listener, NULL, NULL);
    pthread_join(thread, NULL);
}

static void drains(void) {
    PEER;
    busy_function(time_ms);
    static char buffer[1 << 20];
    for (int got = 0; got < 1 << 17;) got += read(ends[0], buffer, sizeof buffer);
}

static void full_pipe(void) {
    static char buffer[1 << 17];
    if (pipe(ends) < 0) _exit(1);
    pthread_t thread = peer(drains);
    if (write(ends[1], buffer, sizeof buffer) < 0) _exit(1);
    pthread_join(thread, NULL);
}

static void poll_peer(void) {
    if (pipe(ends) < 0) _exit(1);
    struct pollfd file = {.fd = ends[0], .events = POLLIN};
    pthread_t thread = peer(writes);
    poll(&file, 1, -1);
    pthread_join(thread, NULL);
}

static void epoll_peer(void) {
    if (pipe(ends) < 0) _exit(1);
    int poll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN};
    epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &wanted);
    pthread_t thread = peer(writes);
    epoll_wait(poll, &wanted, 1, -1);
    pthread_join(thread, NULL);
}

static void signals_event(void) {
    PEER;
    busy_function(time_ms);
    eventfd_write(event, 1);
}

static void event_peer(void) {
    eventfd_t value;
    event = eventfd(0, 0);
    pthread_t thread = peer(signals_event);
    eventfd_read(event, &value);
    pthread_join(thread, NULL);
}

static void raises(void) {
    PEER;
    busy_function(time_ms);
    kill(main_pid, SIGUSR1);
}

static void signal_peer(void) {
    sigset_t set;
    int number;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    main_pid = getpid();
    pthread_t thread = peer(raises);
    sigwait(&set, &number);
    pthread_join(thread, NULL);
}

static void posts_set(void) {
    PEER;
    busy_function(time_ms);
    struct sembuf up = {0, 1, 0};
    semop(set_id, &up, 1);
}

static void semaphore_set(void) {
    set_id = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, 0};
    pthread_t thread = peer(posts_set);
    semop(set_id, &down, 1);
    pthread_join(thread, NULL);
    semctl(set_id, 0, IPC_RMID);
}

static void sends_message(void) {
    PEER;
    busy_function(time_ms);
    struct { long type; char byte; } message = {1, 'x'};
    msgsnd(set_id, &message, 1, 0);
}

static void message_queue(void) {
    struct { long type; char byte; } message;
    set_id = msgget(IPC_PRIVATE, 0600);
    pthread_t thread = peer(sends_message);
    msgrcv(set_id, &message, 1, 0, 0);
    pthread_join(thread, NULL);
    msgctl(set_id, IPC_RMID, NULL);
}

/* Starts a process on the same CPU, and returns once it runs. */
static pid_t start_rival(int nice, int is_real_time, int ms) {
    pin(0);
    if (pipe(ends) < 0) _exit(1);
    pid_t other = fork();
    if (other == 0) {
        name("peer");
        struct sched_param priority = {1};
        if (is_real_time) sched_setscheduler(0, SCHED_FIFO, &priority);
        setpriority(PRIO_PROCESS, 0, nice);
        if (write(ends[1], "x", 1) != 1) _exit(1);
        busy_function(ms);
        _exit(0);
    }
    char byte;
    if (read(ends[0], &byte, 1) != 1) _exit(1);
    return other;
}

static void rival_of(int own, int others, int ms) {
    setpriority(PRIO_PROCESS, 0, own);
    pid_t other = start_rival(others, 0, 10000);
    busy_function(ms);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

static void neighbour(void) { rival_of(0, -15, time_ms / 8); }

static void low_priority(void) { rival_of(5, -12, 3); }

static void real_time(void) {
    pid_t other = start_rival(0, 1, time_ms);
    busy_function(time_ms / 8);
    waitpid(other, NULL, 0);
}

static void page_faults(void) {
    size_t size = 8 << 20;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, size, MADV_NOHUGEPAGE);
    long end = cpu_ns() + time_ms * 1000000L;
    while (cpu_ns() < end) {
        for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
        madvise(memory, size, MADV_DONTNEED);
    }
}

static void child(void) {
    if (fork() == 0) {
        PEER;
        busy_function(time_ms);
        _exit(0);
    }
    wait(NULL);
}

static void sleeping_child(void) {
    if (fork() == 0) {
        PEER;
        sleep_ms(time_ms);
        _exit(0);
    }
    wait(NULL);
}

static void vfork_child(void) {
    if (vfork() == 0) {
        PEER;
        busy_function(time_ms);
        _exit(0);
    }
}

static void stopped(void) {
    pid_t other = getpid();
    if (fork() == 0) {
        PEER;
        kill(other, SIGSTOP);
        busy_function(time_ms);
        kill(other, SIGCONT);
        _exit(0);
    }
    wait(NULL);
}

static void holds_file(void) {
    name("peer");
    int file = open(scratch, O_RDWR | O_CREAT, 0600);
    flock(file, LOCK_EX);
    held();
    busy_function(time_ms);
    flock(file, LOCK_UN);
}

static void file_lock(void) {
    pthread_t thread = peer(holds_file);
    wait_for_holder();
    flock(open(scratch, O_RDWR), LOCK_EX);
    pthread_join(thread, NULL);
}

static void sync_file(void) {
    int file = open(scratch, O_RDWR | O_CREAT, 0600);
    static char block[1 << 16];
    for (int i = 0; i < time_ms / 4; i++) {
        if (write(file, block, sizeof block) < 0) _exit(1);
        fsync(file);
    }
}

static void direct_read(void) {
    int file = open(scratch, O_RDWR | O_CREAT, 0600);
    void *block;
    if (posix_memalign(&block, 4096, 1 << 16)) _exit(1);
    memset(block, 1, 1 << 16);
    if (pwrite(file, block, 1 << 16, 0) < 0) _exit(1);
    fsync(file);
    int direct = open(scratch, O_RDONLY | O_DIRECT);
    for (int i = 0; i < 2 + time_ms / 20; i++) pread(direct, block, 1 << 16, 0);
}

static void busy(void) { busy_function(time_ms); }

/* The peer waits for a pipe of another thread, which holds up both. */
static int inner[2];

static void first_of_chain(void) {
    name("origin");
    busy_function(time_ms);
    if (write(inner[1], "x", 1) != 1) _exit(1);
}

static void second_of_chain(void) {
    PEER;
    char byte;
    if (read(inner[0], &byte, 1) != 1) _exit(1);
    if (write(ends[1], "x", 1) != 1) _exit(1);
}

static void chain(void) {
    char byte;
    if (pipe(inner) < 0 || pipe(ends) < 0) _exit(1);
    pthread_t one = peer(first_of_chain), two = peer(second_of_chain);
    if (read(ends[0], &byte, 1) != 1) _exit(1);
    pthread_join(one, NULL);
    pthread_join(two, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"lock", lock}, {"locksleep", lock_of_sleeper}, {"newlock", short_locks},
    {"condition", condition_variable}, {"join", join}, {"semaphore", posix_semaphore},
    {"calls", system_calls}, {"stats", stats}, {"timer", timer}, {"timerfd", timer_file},
    {"polltime", poll_timeout}, {"epolltime", epoll_timeout}, {"locktime", lock_timeout},
    {"pipe", pipe_peer}, {"socket", socket_peer}, {"datagram", datagram_peer}, {"tcp", tcp_peer},
    {"accept", accept_peer}, {"fullpipe", full_pipe}, {"poll", poll_peer}, {"epoll", epoll_peer},
    {"event", event_peer}, {"signal", signal_peer}, {"semset", semaphore_set},
    {"message", message_queue}, {"neighbour", neighbour}, {"nice", low_priority},
    {"realtime", real_time}, {"faults", page_faults}, {"child", child},
    {"childsleep", sleeping_child}, {"vfork", vfork_child}, {"stopped", stopped},
    {"flock", file_lock}, {"fsync", sync_file}, {"direct", direct_read}, {"busy", busy},
    {"chain", chain},
};

static int write_text(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    int is_written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) close(file);
    return is_written;
}

/* Control groups, in which the requests to a disk can be limited. */
static const struct { const char *root, *limit, *form; } groups[] = {
    {"/sys/fs/cgroup/blkio", "blkio.throttle.read_iops_device", "%u:%u 20"},
    {"/sys/fs/cgroup", "io.max", "%u:%u riops=20"},
};
static char slow_group[64];

/* Limits this process to 20 requests a second to the disk of a folder. */
static void slow_down(const char *folder) {
    struct stat status;
    stat(folder, &status);
    write_text("/sys/fs/cgroup/cgroup.subtree_control", "+io");
    for (int i = 0; i < 2; i++) {
        char path[128], text[64];
        snprintf(slow_group, sizeof slow_group, "%s/planted-%d", groups[i].root, getpid());
        if (mkdir(slow_group, 0700) < 0) continue;
        snprintf(path, sizeof path, "%s/%s", slow_group, groups[i].limit);
        snprintf(text, sizeof text, groups[i].form, major(status.st_dev), minor(status.st_dev));
        if (write_text(path, text)) {
            snprintf(path, sizeof path, "%s/cgroup.procs", slow_group);
            write_text(path, "0");
            return;
        }
        rmdir(slow_group);
    }
}

static void end_slow_down(void) {
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/cgroup.procs", groups[i].root);
        if (!strncmp(slow_group, groups[i].root, strlen(groups[i].root))) write_text(path, "0");
    }
    rmdir(slow_group);
}

int main(int count, char **args) {
    for (int i = 2; i < count; i++) {
        const char *dash = strrchr(args[i], '-');
        time_ms = atoi(dash ? dash + 1 : args[i]);
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
            char label[16];
            snprintf(label, sizeof label, "%s-%d", kinds[kind].name, time_ms);
            if (dash && strcmp(label, args[i]) != 0) continue;
            snprintf(scratch, sizeof scratch, "%s/%s", args[1], label);
            int is_slow = kinds[kind].run == direct_read;
            if (is_slow) slow_down(args[1]);
            pid_t pid = fork();
            if (pid == 0) {
                name(label);
                kinds[kind].run();
                _exit(0);
            }
            waitpid(pid, NULL, 0);
            unlink(scratch);
            if (is_slow) end_slow_down();
        }
    }
}
