# Zig as the C++ compiler, from the wheel `ziglang`: CMake wants programs with one name each.
set(wrappers ${CMAKE_BINARY_DIR}/zig)
foreach(tool IN ITEMS c++ ar ranlib)
  set(arguments ${tool})
  if(tool STREQUAL "c++")
    set(arguments "c++ -mcpu=baseline")  # without it, Zig takes the machine's own instructions
  endif()
  file(WRITE ${wrappers}/${tool} "#!/bin/sh\nexec '$ENV{SAFESPOT_PYTHON}' -m ziglang ${arguments} \"$@\"\n")
  file(CHMOD ${wrappers}/${tool} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_CXX_FLAGS_INIT "-include cstdio")  # nanobind takes it for granted
set(CMAKE_CXX_COMPILER ${wrappers}/c++)
set(CMAKE_AR ${wrappers}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${wrappers}/ranlib CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_AR ${wrappers}/ar CACHE FILEPATH "")
set(CMAKE_CXX_COMPILER_RANLIB ${wrappers}/ranlib CACHE FILEPATH "")
set(SAFESPOT_LEVELS OFF CACHE BOOL "Zig has no choice of functions by the processor")
