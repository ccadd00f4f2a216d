package webtest

import "hearth/engine/infer"

// refused plays a target that is not of the caller's dialect, behind a route that
// refuses losses: what the decoder could not represent is an error that names the
// field.
func refused(r *infer.Request) error {
	for _, u := range r.Uses {
		if u.Feature != infer.FeatureUnknown {
			continue
		}
		e := infer.Invalid(u.Path, "unknown field %q", u.Path)
		if u.Why != "" {
			e.Message = u.Why
		}
		return e
	}
	return nil
}
