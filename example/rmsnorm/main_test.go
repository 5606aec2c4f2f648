package main

func Example() {
	main()
	// Output:
	// rmsnorm [1.2001953 -1.5996094 0 0 1 1 1 2]
	// swiglu  [3.4296875 0.115112305 0 0 0.73095703 0.73095703 0.73095703 1.4619141]
	// same bits as the reference: true
}
