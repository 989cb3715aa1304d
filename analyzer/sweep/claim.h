/* claim.h - a folder of points belongs to one command, and to one sweep at a time. */
#ifndef VS_SWEEP_CLAIM_H
#define VS_SWEEP_CLAIM_H

/* OWN: words of this program's that points depend on, too; NULL: none.  Makes it where it is not there, and
 * holds it until we and every process of a point have ended.  0, or 2, said in the name of WHO. */
int claim_folder(const char *who, const char *folder, char *const *own, char *const *command);

#endif
