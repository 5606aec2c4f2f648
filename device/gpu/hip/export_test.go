package hip

// For tests that open devices of any kind, and so cannot be in this package.
var (
	Stub = stub
	Open = open
)
