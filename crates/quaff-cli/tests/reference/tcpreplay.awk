# A small script as people have them: what tcpreplay said at its end, one figure a line.
/^Actual:/ {
    print "packets", $2
    gsub(/[()]/, "")
    print "bytes", $4
    seconds = $(NF - 1)
}
/^Rated:/ {
    bad = $3 != "Bps," || $5 != "Mbps," || $7 != "pps" || $2 !~ /^[0-9]+\.[0-9]$/ || $4 !~ /^[0-9]+\.[0-9][0-9][0-9]?$/ || $6 !~ /^[0-9]+\.[0-9][0-9]$/
    if (bad || seconds !~ /^[0-9]+\.([0-9][0-9]|[0-9][0-9][0-9][0-9][0-9][0-9])$/) print "unreadable", $0
}
/^Flows:/ {
    print "flows", $2
    print "flow packets", $6
    print "non-flow packets", $10
}
/^Statistics for network device:/ { device = $NF }
/^\tSuccessful packets:/ { print device, "successful", $3 }
/^\tFailed packets:/ { print device, "failed", $3 }
/^\tTruncated packets:/ { print device, "truncated", $3 }
