"""Operations on DTensors one by one; `dtensor.runtime.eager` says what runs which."""
