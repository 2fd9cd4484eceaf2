package avro

// skip gives what passes over a value that the reader has no use for.
func (rs *resolver) skip(w *schema) skipper {
	if s := rs.skips[w]; s != nil {
		return func(r *reader) error { return (*s)(r) }
	}
	s := new(skipper)
	rs.skips[w] = s
	*s = rs.makeSkip(w)
	return *s
}

func (rs *resolver) makeSkip(w *schema) skipper {
	switch w.kind {
	case booleanKind:
		return func(r *reader) error { _, err := r.bool(); return err }
	case intKind:
		return func(r *reader) error { _, err := r.int(); return err }
	case longKind:
		return func(r *reader) error { _, err := r.long(); return err }
	case floatKind, doubleKind, fixedKind:
		return func(r *reader) error { _, err := r.take(w.least); return err }
	case bytesKind, stringKind:
		return func(r *reader) error { _, err := r.bytes(); return err }
	case enumKind:
		return func(r *reader) error { _, err := r.index(len(w.symbols), "symbol"); return err }
	case arrayKind:
		return items(w.elem.least, rs.skip(w.elem))
	case mapKind:
		value := rs.skip(w.elem)
		return items(w.elem.least+1, func(r *reader) error {
			if _, err := r.bytes(); err != nil {
				return err
			}
			return value(r)
		})
	case recordKind:
		fields := make([]skipper, len(w.fields))
		for i, f := range w.fields {
			fields[i] = rs.skip(f.s)
		}
		return func(r *reader) error {
			if err := r.enter(); err != nil {
				return err
			}
			for i, skip := range fields {
				if err := skip(r); err != nil {
					return within(w.fields[i].name, err)
				}
			}
			r.leave()
			return nil
		}
	case unionKind:
		branches := make([]skipper, len(w.branches))
		for i, b := range w.branches {
			branches[i] = rs.skip(b)
		}
		return func(r *reader) error {
			i, err := r.index(len(branches), "branch")
			if err != nil {
				return err
			}
			return branches[i](r)
		}
	}
	return func(*reader) error { return nil } // null
}

// items skips blocks: those that say their size in one jump, the others item by item.
func items(least int, skip skipper) skipper {
	return func(r *reader) error {
		if err := r.enter(); err != nil {
			return err
		}
		for {
			n, end, err := r.block(least)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			if end >= 0 {
				r.off = end
				continue
			}
			if least == 0 {
				if err := r.charge(n, freeItem); err != nil {
					return err
				}
			}
			for range n {
				if err := skip(r); err != nil {
					return err
				}
			}
		}
		r.leave()
		return nil
	}
}
