package verify

import "context"

// until returns the result of f, or the context's error as soon as the context ends. A
// kernel, a compiler or a judge cannot be stopped from outside: f then continues without
// its caller, and late, if it is not nil, receives the result.
func until[T any](ctx context.Context, f func() T, late func(T)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	if ctx.Done() == nil {
		return f(), nil
	}
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v = <-done:
		return v, nil
	case <-ctx.Done():
		if late != nil {
			go func() { late(<-done) }()
		}
		return v, ctx.Err()
	}
}
