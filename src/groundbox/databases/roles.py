"""What a role of PostgreSQL could do beside reading what it was granted.

The transaction is read-only and ends with a rollback whatever the role may do; but a role that may read the server's
files, run programs there or end other sessions does so in a read-only transaction as well.

What every new server grants everybody is not a power of the role: creating in the schema `public` before version 15,
and functions such as `pg_logical_emit_message`. The read-only transaction and `postgres_functions` refuse these.
"""

from __future__ import annotations

from typing import Final

POWERS: Final = """
WITH me AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = current_user),
relations AS (
    SELECT c.oid, c.relowner, n.nspname || '.' || c.relname AS name
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
),
functions AS (
    SELECT p.oid, p.proname, p.prosecdef, o.rolsuper, n.nspname
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_roles o ON o.oid = p.proowner
    WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE')
)
SELECT 'is a superuser' FROM me WHERE rolsuper
UNION ALL SELECT 'may create roles' FROM me WHERE rolcreaterole
UNION ALL SELECT 'may create databases' FROM me WHERE rolcreatedb
UNION ALL SELECT 'may replicate' FROM me WHERE rolreplication
UNION ALL SELECT 'passes by row security' FROM me WHERE rolbypassrls
UNION ALL
SELECT 'is a member of ' || r.rolname FROM pg_catalog.pg_roles r, me
WHERE NOT me.rolsuper AND pg_catalog.pg_has_role(current_user, r.oid, 'MEMBER') AND (
    r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolname IN (
    'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend',
    'pg_write_all_data', 'pg_checkpoint', 'pg_maintain', 'pg_create_subscription'))
  AND r.rolname <> current_user
UNION ALL
(SELECT 'may write ' || name FROM relations, me WHERE NOT me.rolsuper AND (
    pg_catalog.has_table_privilege(relations.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
    OR pg_catalog.has_any_column_privilege(relations.oid, 'INSERT, UPDATE')) ORDER BY name LIMIT 3)
UNION ALL
(SELECT 'owns ' || name FROM relations, me
 WHERE NOT me.rolsuper AND pg_catalog.pg_has_role(current_user, relowner, 'USAGE') ORDER BY name LIMIT 3)
UNION ALL
(SELECT 'may create in schema ' || nspname FROM pg_catalog.pg_namespace, me
 WHERE NOT me.rolsuper AND nspname NOT LIKE 'pg\\_%' AND pg_catalog.has_schema_privilege(pg_namespace.oid, 'CREATE')
   AND NOT (nspname = 'public' AND EXISTS (
       SELECT 1 FROM pg_catalog.aclexplode(nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'CREATE'))
 ORDER BY nspname LIMIT 3)
UNION ALL
SELECT 'may create schemas' FROM me
WHERE NOT me.rolsuper AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
UNION ALL
(SELECT DISTINCT 'may call ' || proname FROM functions, me WHERE NOT me.rolsuper
 AND (nspname = 'pg_catalog' AND proname IN ('pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'pg_stat_file',
      'lo_import', 'lo_export',
      'pg_file_write', 'pg_promote', 'pg_reload_conf', 'pg_rotate_logfile')
      OR proname IN ('dblink', 'dblink_connect', 'dblink_connect_u', 'dblink_exec', 'pg_file_write'))
 AND pg_catalog.has_function_privilege(functions.oid, 'EXECUTE') ORDER BY 1 LIMIT 5)
UNION ALL
(SELECT 'may call ' || nspname || '.' || proname || ', which runs as a superuser' FROM functions, me
 WHERE NOT me.rolsuper AND prosecdef AND functions.rolsuper AND nspname NOT IN ('pg_catalog', 'information_schema')
 AND pg_catalog.has_function_privilege(functions.oid, 'EXECUTE') ORDER BY 1 LIMIT 3)
"""
"""One row for each power."""
