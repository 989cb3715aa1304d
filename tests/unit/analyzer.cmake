# The analyzer's pure parts: text, JSON, options; columns, bands, holders, residual.
function(vs_analyzer_test name)
  vs_unit_test(${name} ${ARGN})
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/analyzer)
  target_compile_definitions(test_${name} PRIVATE _GNU_SOURCE)
endfunction()

vs_analyzer_test(output SOURCES analyzer/base.c analyzer/units.c analyzer/json.c analyzer/table.c analyzer/args.c)
vs_analyzer_test(columns SOURCES analyzer/base.c analyzer/analysis/columns.c analyzer/analysis/bands.c)
vs_analyzer_test(holders SOURCES analyzer/base.c analyzer/analysis/holders.c)
vs_analyzer_test(residual SOURCES analyzer/base.c analyzer/analysis/residual.c)
vs_analyzer_test(label SOURCES analyzer/base.c analyzer/analysis/columns.c analyzer/plot/label.c analyzer/plot/title.c)
vs_analyzer_test(ranks SOURCES analyzer/base.c analyzer/analysis/ranks.c)
vs_analyzer_test(savings SOURCES analyzer/base.c analyzer/analysis/savings.c)
