# The libraries of the Python package, in the folder of the wheel where tessera_blas/_libraries.py searches them. The
# target tessera_python builds them, the component python installs them. packaging/python/finish_wheel.py does the rest.
set(libraries tessera tessera_blas tessera_lapack tessera_slots)
# A wheel has no symbolic links. So the file itself has the name that other files need it by.
set_target_properties(${libraries} PROPERTIES VERSION 0 INSTALL_RPATH $ORIGIN)
if(TARGET tessera_cuda)
  list(APPEND libraries tessera_cuda)
  # NVIDIA's wheels lie beside ours. Those of CUDA 13 share one folder; before, each had its own.
  if(CUDAToolkit_VERSION_MAJOR GREATER_EQUAL 13)
    set(nvidia cu${CUDAToolkit_VERSION_MAJOR}/lib)
  else()
    set(nvidia cublas/lib cusolver/lib)
  endif()
  list(TRANSFORM nvidia PREPEND $ORIGIN/../../nvidia/)
  # The toolkits come next: the one of this build, then where NVIDIA's installers put others of its major version.
  set(toolkits ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda-${CUDAToolkit_VERSION_MAJOR}/lib64 /usr/local/cuda/lib64)
  list(REMOVE_DUPLICATES toolkits)
  set_target_properties(tessera_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${nvidia};${toolkits}")
endif()

add_custom_target(tessera_python DEPENDS ${libraries})
install(TARGETS ${libraries} LIBRARY DESTINATION tessera_blas/lib COMPONENT python NAMELINK_SKIP)
