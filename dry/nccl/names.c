/*
 * names.c - functions of NCCL that reach into other ranks' memory or their kernels' state, which cannot be
 * stood in for; libraries of PyTorch import them.
 */
#include "nccl.h"

#define MISSING(name)                                                                                        \
    DRY_API __attribute__((noreturn)) void name(void)                                                        \
    {                                                                                                        \
        dry_missing("NCCL", #name);                                                                          \
    }                                                                                                        \
    extern void p##name(void) DRY_API __attribute__((noreturn, alias(#name)));

MISSING(ncclCommGetUniqueId)
MISSING(ncclCommGrow)
MISSING(ncclCommMemStats)
MISSING(ncclCommResume)
MISSING(ncclCommSuspend)
MISSING(ncclDevCommCreate)
MISSING(ncclDevCommDestroy)
MISSING(ncclGetLsaMultimemDevicePointer)
MISSING(ncclGetPeerDevicePointer)
MISSING(ncclGinBarrierCreateRequirement)
MISSING(ncclGroupSimulateEnd)
MISSING(ncclLLA2ACalcSlots)
MISSING(ncclLLA2ACreateRequirement)
MISSING(ncclLsaBarrierCreateRequirement)
MISSING(ncclPutSignal)
MISSING(ncclSignal)
MISSING(ncclTeamLsa)
MISSING(ncclTeamRail)
MISSING(ncclTeamRankToLsa)
MISSING(ncclTeamRankToWorld)
MISSING(ncclTeamWorld)
MISSING(ncclWaitSignal)
MISSING(ncclWinGetUserPtr)
