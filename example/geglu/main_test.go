package main

func Example() {
	main()
	// Output:
	// geglu [1.0615234 -0.17541504 0 0 0.8413086 1.6826172 2.5234375 3.3652344]
	// same bits as the reference: true
}
