-- The functions of addresses. Traces get their symbols before they are queried, so there are none.
CREATE PERFETTO MACRO _callstack_frame_symbolize(frames TableOrSubquery) RETURNS TableOrSubquery AS
(SELECT NULL AS function_name, f.file_name, NULL AS line_number, f.mapping_id, f.address
 FROM $frames f WHERE 0);
