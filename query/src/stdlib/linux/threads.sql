-- Kernel threads: those of process 2 and of its children.
CREATE PERFETTO VIEW linux_kernel_threads AS
SELECT p.upid, t.utid, p.pid, t.tid, p.name AS process_name, t.name AS thread_name, t.machine_id
FROM process p
JOIN thread t ON t.upid = p.upid
LEFT JOIN process parent ON p.parent_upid = parent.upid
WHERE p.pid = 2 OR parent.pid = 2;
