-- Metadata of the first machine and trace with an entry.
CREATE PERFETTO VIEW _metadata_for_primary_scope AS
SELECT name, str_value, int_value, key_type
FROM __intrinsic_metadata
WHERE id IN (SELECT min(id) FROM __intrinsic_metadata GROUP BY name);
