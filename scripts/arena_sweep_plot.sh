#!/bin/bash
# arena_sweep_plot.sh TSV PNG [TITLE] - draws what tests/gpu/arena_sweep.py measured: peaks over the sequence length, what is reserved as
# lengths come in a random order, and the speed.  Keeps the script with its data beside PNG, as .gp.  Needs gnuplot, and no GPU.
set -eu
tsv=$1 png=$2 title=${3:-"Llama 3.2 1B, training step in bf16, one H200: peak of memory over the sequence length"}
gp=${png%.png}.gp
[ "$gp" != "$png" ] || { echo "$png: name it .png" >&2 && exit 2; }

# block NAME SERIES ALLOCATOR: length, allocated, reserved, iterations a second, in the order of measuring
block() {
    echo "\$$1 << END"
    awk -F '\t' -v series="$2" -v name="$3" '$1 == name && $2 == series { print $3, $4 / 2 ^ 30, $5 / 2 ^ 30, $6 }' "$tsv" |
        if [ "$2" = reset ]; then sort -n; else awk '{ a = $2 > a ? $2 : a; r = $3 > r ? $3 : r; print NR, a, r, $4, $1 }'; fi
    echo "END"
}
# speed ALLOCATOR: length, its speed in percent of native's, the mean of both series
speed() {
    echo "\$speed_$1 << END"
    awk -F '\t' -v name="$1" '$1 == "native" { native[$2, $3] = $6 } $1 == name { own[$2, $3] = $6 }
        END { for (key in own) if (key in native) { split(key, k, SUBSEP); sum[k[2]] += 100 * own[key] / native[key]; n[k[2]]++ }
              for (length_ in sum) print length_, sum[length_] / n[length_] }' "$tsv" | sort -n
    echo "END"
}

for series in reset kept; do
    for name in native expandable arena; do
        awk -F '\t' -v s=$series -v n=$name '$1 == n && $2 == s { found = 1 } END { exit !found }' "$tsv" ||
            { echo "$tsv: no row of $name in the series $series" >&2 && exit 2; }
    done
done
longest=$(awk -F '\t' '$3 > most { most = $3 } END { print most }' "$tsv")
points=$(awk -F '\t' '$1 == "native" && $2 == "kept"' "$tsv" | wc -l)
{
    echo "# Made by scripts/arena_sweep_plot.sh.  gnuplot FILE draws it again, beside itself."
    for name in native expandable arena; do
        block "reset_$name" reset $name
        block "kept_$name" kept $name
        speed $name
    done
    cat <<END
set encoding utf8
set terminal pngcairo size 1600,560 noenhanced font "DejaVu Sans,12" background "#ffffff"
set output "$(basename "$png")"
native_color = "#c26a4a"
expandable_color = "#7d868e"
arena_color = "#22313c"
allocated_fill = "#dfe3e6"
set grid ytics lw 0.6 lc rgb "#d5d5d5"
set border 3 lc rgb "#7d868e"
set tics nomirror
set style fill solid noborder
set multiplot

# title and legend
unset border
unset tics
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen 1
set bmargin at screen 0.87
set key inside center bottom horizontal Left reverse samplen 2.2 width 2 maxrows 1
set label 1 "$title" at screen 0.5, screen 0.965 center font ",15"
set xrange [0:1]
set yrange [0:1]
plot NaN with boxes lc rgb allocated_fill title "allocated", \\
  NaN with lines lw 2 lc rgb native_color title "reserved by torch native", \\
  NaN with lines lw 2 lc rgb expandable_color title "torch expandable_segments", \\
  NaN with lines lw 2.5 dt (8,4) lc rgb arena_color title "arena"
unset label 1
unset key
set border 3 lc rgb "#7d868e"
set tics nomirror
set grid ytics lw 0.6 lc rgb "#d5d5d5"
set tmargin at screen 0.78
set bmargin at screen 0.13

set lmargin at screen 0.05
set rmargin at screen 0.34
set title "caches given back before each length"
set xlabel "sequence length"
set ylabel "GiB"
set xtics nomirror autofreq
set ytics nomirror autofreq
set xrange [0:$longest]
set yrange [0:*]
plot \$reset_native using 1:2 with filledcurves x1 lc rgb allocated_fill, \\
  \$reset_native using 1:3 with lines lw 2 lc rgb native_color, \\
  \$reset_expandable using 1:3 with lines lw 2 lc rgb expandable_color, \\
  \$reset_arena using 1:3 with lines lw 2.5 dt (8,4) lc rgb arena_color

set lmargin at screen 0.39
set rmargin at screen 0.67
set title "caches kept, lengths in a random order"
set xlabel "lengths measured so far"
set xrange [1:$points]
plot \$kept_native using 1:2 with fillsteps lc rgb allocated_fill, \\
  \$kept_native using 1:3 with steps lw 2 lc rgb native_color, \\
  \$kept_expandable using 1:3 with steps lw 2 lc rgb expandable_color, \\
  \$kept_arena using 1:3 with steps lw 2.5 dt (8,4) lc rgb arena_color

set lmargin at screen 0.73
set rmargin at screen 0.985
set title "iterations a second, of native's"
set xlabel "sequence length"
set ylabel "%" offset 1
set xrange [0:$longest]
set yrange [*<90:110<*]
plot \$speed_native using 1:2 with lines lw 2 lc rgb native_color, \\
  \$speed_expandable using 1:2 with linespoints pt 7 ps 0.6 lw 1.5 lc rgb expandable_color, \\
  \$speed_arena using 1:2 with linespoints pt 7 ps 0.8 lw 1.5 lc rgb arena_color
unset multiplot
END
} >"$gp"
cd "$(dirname "$gp")"
gnuplot "$(basename "$gp")"
echo "$png: drawn"
