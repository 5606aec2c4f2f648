package jinja

// RenderLast renders as Render does with the last hundredth of the steps and bytes that it allows.
func (t *Template) RenderLast() (string, error) {
	return t.render(&renderer{read: maxSteps / 100 * 99 * stepBytes, bytes: maxBytes / 100 * 99})
}
