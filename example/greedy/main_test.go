package main

func Example() {
	main()
	// Output:
	// token  [1 0 1]
	// logit  [2.25 3 NaN]
	// margin [0.25 0 NaN]
	// same token as the reference: true
}
