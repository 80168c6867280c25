CREATE PERFETTO FUNCTION _is_linux_machine(machine_id JOINID(machine.id)) RETURNS LONG AS
SELECT count(*) = 1 FROM metadata
WHERE name = 'system_name' AND str_value = 'Linux' AND machine_id = $machine_id;
