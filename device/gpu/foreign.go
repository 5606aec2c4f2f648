package gpu

import "tokitai/device/gpu/driver"

// Foreign is work that another library submits to a stream, such as a product of cuBLAS.
type Foreign interface {
	// Name returns what reports of a fault call the work.
	Name() string

	// Submit submits the work. The device's context is current on a locked thread. It
	// does not wait for the device and does not call back into this package. Scratch is
	// the address of the call's scratch memory.
	Submit(s driver.Stream, scratch driver.Pointer) error
}

// RunForeign is Run for a call that ends with the work of another library. It is ordered
// with other work as every call is, by the buffers that c uses.
func (q *Queue) RunForeign(c *Call, f Foreign) error { return q.runWith(c, nil, f) }

// submitForeign submits the work of another library; mu is held and the context is
// current.
func (q *Queue) submitForeign(f Foreign, scratch driver.Pointer) error {
	q.note(f.Name())
	if err := f.Submit(q.stream, scratch); err != nil {
		return err
	}
	return q.maybeSync()
}

// Do calls f, which makes calls of another library that do not wait for the device, with
// the device's context current on a locked thread. f does not call back into this
// package.
func (d *Device) Do(what string, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.submit(what, f)
}

// OnClose arranges that Close calls f after all work is done, with the device's context
// current. It returns an error if the device is closed or lost.
func (d *Device) OnClose(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable("use a library"); err != nil {
		return err
	}
	d.onClose = append(d.onClose, f)
	return nil
}
