INCLUDE PERFETTO MODULE linux.threads;

-- Threads, with a flag for kernel threads.
CREATE PERFETTO VIEW _threads_with_kernel_flag AS
SELECT t.utid, t.upid, t.tid, p.pid, t.name AS thread_name, p.name AS process_name,
  t.is_main_thread, t.utid IN (SELECT utid FROM linux_kernel_threads) AS is_kernel_thread,
  t.machine_id
FROM thread t LEFT JOIN process p ON t.upid = p.upid;
