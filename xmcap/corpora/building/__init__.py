"""What all builders of records share: annotations, pictures, problems, splits and the working folder."""
