"""What all builders of records share: annotations, images, problems, splits and the working folder."""
