CREATE PERFETTO VIEW linux_hard_irqs AS
SELECT s.ts, s.dur, s.name, s.id, s.parent_id
FROM slice s JOIN track t ON s.track_id = t.id WHERE t.type = 'cpu_irq';

CREATE PERFETTO VIEW linux_soft_irqs AS
SELECT s.ts, s.dur, s.name, s.id
FROM slice s JOIN track t ON s.track_id = t.id WHERE t.type = 'cpu_softirq';

CREATE PERFETTO VIEW linux_irqs AS
SELECT ts, dur, name, id, parent_id, 0 AS is_soft_irq FROM linux_hard_irqs
UNION ALL
SELECT ts, dur, name, id, NULL AS parent_id, 1 AS is_soft_irq FROM linux_soft_irqs;

CREATE PERFETTO VIEW linux_interrupt_mapping AS
SELECT id, irq_id, name, machine_id FROM __intrinsic_linux_interrupt_mapping;
