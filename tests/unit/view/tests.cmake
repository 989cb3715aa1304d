# The level of detail of `vramscope view`, held against what a look at every event finds.
foreach(name view_levels view_keep)
  vs_analyzer_test(${name} LIBS room_view)
endforeach()
vs_one_thread(view_levels view_keep)
