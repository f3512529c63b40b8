module docket-verify

go 1.22
