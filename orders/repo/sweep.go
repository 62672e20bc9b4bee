package repo

import (
	"context"
	"errors"
	"time"

	"example.com/stock/orders/service"
)

// Sweep ends the reservations that have expired, in pages of limit. Several sweepers may run: the step checks again.
// One that cannot be ended keeps no other from its end.
func (s *Store) Sweep(ctx context.Context, limit int) (ended int, err error) {
	var failed []error
	for {
		var due []string
		err := s.db.WithContext(ctx).Model(&service.Reservation{}).
			Where("state = ? AND expires_at <= NOW(6)", service.Held).Order("expires_at, id").
			Offset(len(failed)).Limit(limit).Pluck("id", &due).Error
		if err != nil {
			return ended, explain(err)
		}
		for _, id := range due {
			if _, _, err := s.Step(ctx, Ask{Reservation: id}, service.ExpireReservation); err != nil {
				failed = append(failed, err)
			} else {
				ended++
			}
		}
		if len(due) < limit || ctx.Err() != nil {
			return ended, errors.Join(failed...)
		}
	}
}

// Overdue returns how many reservations should have ended more than late ago.
func (s *Store) Overdue(ctx context.Context, late time.Duration) (n int64, err error) {
	const overdue = "state = ? AND expires_at <= NOW(6) - INTERVAL ? SECOND"
	err = s.db.WithContext(ctx).Model(&service.Reservation{}).
		Where(overdue, service.Held, late.Seconds()).Count(&n).Error
	return n, explain(err)
}
