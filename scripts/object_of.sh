#!/bin/bash
# object_of.sh BUILD COMPILER ARGUMENT... - in the compiler's place: the object as BUILD has it, else compiled.
had=$1 previous=
shift
for argument; do
    [ "$previous" != -o ] || object=$argument
    previous=$argument
done
[ ! -f "$had/$object" ] || exec cp "$had/$object" "$object"
exec "$@"
