#!/bin/bash
# llama_plot.sh TSV PNG - draws llama.sh's table: the peak over the tokens of a step, eager and fused, measured (points) and estimated
# beforehand (lines).  Needs gnuplot, and no GPU.
set -eu
tsv=$1 png=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-plot.XXXXXX")
trap 'rm -rf "$work"' EXIT
for loss in eager fused; do
    for source in predicted measured; do
        awk -F '\t' -v loss=$loss -v source=$source \
            '$1 == "sweep" && $5 == loss && $6 == "run" && $7 == source { print $2 / 1024, $8 / 2 ^ 30 }' "$tsv" |
            sort -n >"$work/$loss.$source"
        [ -s "$work/$loss.$source" ] || { echo "$tsv: no $source row of the $loss loss" >&2 && exit 2; }
    done
done
static=$(awk -F '\t' '$1 == "sweep" && $5 == "eager" && $6 == "optimizer" && $7 == "predicted" { print $8 / 2 ^ 30; exit }' "$tsv")
gnuplot <<END
set encoding utf8
set terminal pngcairo size 1000,620 noenhanced font "DejaVu Sans,12" background "#ffffff"
set output "$png"
set title "Peak of allocated memory: 2 layers of Llama 3 8B and its output layer (4096 x 128256), one H200" font ",13"
set xlabel "tokens in a step, in units of 1024"
set ylabel "GiB"
set xrange [0:$(awk 'BEGIN { most = 1 } $1 > most { most = $1 } END { print most * 1.04 }' "$work/eager.predicted")]
set xtics 4
set yrange [0:*]
set grid lw 0.6 lc rgb "#d5d5d5"
set border 3 lc rgb "#7d868e"
set tics nomirror
set key left top Left reverse samplen 2.5 spacing 1.3
set label 1 "weights, gradients and optimizer states: $(printf %.1f "$static") GiB" at graph 0.99, first $static right offset 0,-0.8 tc rgb "#7d868e"
plot $static with lines dt 2 lc rgb "#7d868e" notitle, \
  "$work/eager.predicted" with lines lw 2 lc rgb "#c26a4a" title "eager loss, estimated", \
  "$work/eager.measured" with points pt 7 ps 1.5 lc rgb "#c26a4a" title "eager loss, recorded", \
  "$work/fused.predicted" with lines lw 2 lc rgb "#22313c" title "fused loss, estimated", \
  "$work/fused.measured" with points pt 7 ps 1.5 lc rgb "#22313c" title "fused loss, recorded"
END
echo "$png: drawn"
