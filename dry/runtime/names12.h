/*
 * names12.h - names under which libcudart.so.12 has the forms that CUDA 13's headers declare; older12.c has
 * the old.
 */
#ifndef DRY_RUNTIME_NAMES12_H
#define DRY_RUNTIME_NAMES12_H

#define cudaEventElapsedTime           cudaEventElapsedTime_v2
#define cudaGetDeviceProperties        cudaGetDeviceProperties_v2
#define cudaGraphAddNode               cudaGraphAddNode_v2
#define cudaGraphGetEdges              cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies   cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM /* the headers have names of their own for these then */
#define cudaMemAdvise                       cudaMemAdvise_v2
#define cudaMemPrefetchAsync                cudaMemPrefetchAsync_v2
#define cudaStreamGetCaptureInfo            cudaStreamGetCaptureInfo_v3
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#endif

#endif
