# rows.sed - with sed -nE: the beginnings of shim/trace/driver.def's rows, "number, symbol, ... shape,", one a function
s/^VS_APIS\(([0-9]+), ([0-9]+), (\w+), (\w+), (\w+), ([0-9]+), ([0-9]+), (\w+),.*/\1, \3, \5, \6, LEGACY, \8,\n\2, \3\4, \5, \7, PTSZ, \8,/p
s/^VS_API\(([^(]*),.*/\1,/p
