# Functions of what read gives; read itself is a stand-in here.
foreach(name columns holders residual ranks savings compare growth causes layers parts waste limits)
  vs_analyzer_test(${name} LIBS room_analysis)
endforeach()
vs_one_thread(columns holders residual ranks savings compare growth causes layers parts waste limits)
