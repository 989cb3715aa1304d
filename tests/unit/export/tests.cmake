# What the writers are made of; the formats are read back by tests/e2e/export.
vs_analyzer_test(export_map LIBS room_export)
vs_analyzer_test(export_heap LIBS room_export)
vs_analyzer_test(export_lanes LIBS room_export)
vs_one_thread(export_map export_heap export_lanes)
