package main

func Example() {
	main()
	// Output:
	// step 0: loss 2.0154
	// step 100: loss 0.0162
	// step 200: loss 0.0085
	// 8 calls
}
